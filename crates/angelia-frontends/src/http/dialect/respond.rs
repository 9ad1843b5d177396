//! Writes an answer as an HTTP response: a stream of events, one object, or an error.

use std::{convert::Infallible, time::Duration};

use angelia_core::model::{Failure, FailureKind, SessionId, TurnId, Usage};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::{
    AnswerChunk, AnswerEncoder, AnswerEnd, BlockKind, Dialect, DialectError, ErrorKind, StopReason,
    live_answer::{LiveAnswer, NextChunks},
};
use crate::event_json::ceil_seconds;

/// How long the response headers wait for the first chunk. Once they are sent, a failure can no
/// longer be an HTTP error.
const FIRST_CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

const TURN_HEADER: HeaderName = HeaderName::from_static("x-angelia-turn");
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-angelia-session");
const STATUS_HEADER: HeaderName = HeaderName::from_static("x-angelia-status");

const STREAM_HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-store"),
    // For proxies that would otherwise collect the stream before they pass it on.
    (HeaderName::from_static("x-accel-buffering"), "no"),
    (header::TRAILER, "x-angelia-status"),
];

pub(super) async fn respond<D: Dialect>(answer: LiveAnswer, dialect: D) -> Response {
    if answer.request.stream {
        stream_response(answer, dialect).await
    } else {
        complete_response(answer, dialect).await
    }
}

/// Returns the response for an error, encoded by the dialect.
pub(in crate::http) fn error_response<D: Dialect>(error: &DialectError) -> Response {
    let (status, body) = D::encode_error(error);
    json_error(status, body, error)
}

pub(in crate::http) fn json_error(
    status: StatusCode,
    body: Vec<u8>,
    error: &DialectError,
) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (status, headers, body).into_response();
    let headers = response.headers_mut();
    if error.kind == ErrorKind::NoKey {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = error.retry_after {
        headers.insert(header::RETRY_AFTER, ceil_seconds(wait).into());
    }
    response
}

/// Returns whether repeating the same request may succeed.
const fn is_transient(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Failed(FailureKind::RateLimited | FailureKind::Unavailable)
            | ErrorKind::Busy
            | ErrorKind::Stopping
    )
}

/// Returns the response for an error of a turn that has run.
fn turn_error_response<D: Dialect>(error: &DialectError, answer: &LiveAnswer) -> Response {
    let mut response = error_response::<D>(error);
    let headers = response.headers_mut();
    insert_turn_headers(headers, answer.turn, answer.session);
    if let Some(status) = answer.status {
        headers.insert(STATUS_HEADER, HeaderValue::from_static(status));
    }
    if is_transient(error.kind) {
        // A client that repeats the request after this error wants a new turn, not the failed one.
        answer.state.recent_requests.forget(answer.turn);
    } else {
        let name = HeaderName::from_static("x-should-retry");
        headers.insert(name, HeaderValue::from_static("false"));
    }
    response
}

fn insert_turn_headers(headers: &mut HeaderMap, turn: TurnId, session: SessionId) {
    for (name, id) in [(TURN_HEADER, turn.to_string()), (SESSION_HEADER, session.to_string())] {
        if let Ok(value) = HeaderValue::try_from(id) {
            headers.insert(name, value);
        }
    }
}

async fn complete_response<D: Dialect>(mut answer: LiveAnswer, dialect: D) -> Response {
    loop {
        match answer.next_chunks(KEEP_ALIVE_INTERVAL).await {
            Ok(NextChunks::Chunks(_) | NextChunks::Idle) => {}
            Ok(NextChunks::Over) => break,
            Err(error) => return turn_error_response::<D>(&error, &answer),
        }
    }
    let Some(whole) = answer.take_complete() else {
        let kind = ErrorKind::Failed(FailureKind::Internal);
        return turn_error_response::<D>(
            &DialectError::new(kind, "the answer is incomplete"),
            &answer,
        );
    };
    let body = dialect.encode_complete(&answer.request, &whole);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (headers, body).into_response();
    let headers = response.headers_mut();
    insert_turn_headers(headers, answer.turn, answer.session);
    headers.insert(STATUS_HEADER, HeaderValue::from_static(whole.end.status));
    response
}

async fn stream_response<D: Dialect>(mut answer: LiveAnswer, dialect: D) -> Response {
    // A failure before the first chunk is still an HTTP error.
    let first = loop {
        match answer.next_chunks(FIRST_CHUNK_TIMEOUT).await {
            Ok(NextChunks::Chunks(pieces)) if pieces.is_empty() => {}
            Ok(NextChunks::Chunks(pieces)) => break Some(pieces),
            Ok(NextChunks::Idle | NextChunks::Over) => break None,
            Err(error) => return turn_error_response::<D>(&error, &answer),
        }
    };
    let (turn, session) = (answer.turn, answer.session);
    let streaming = AnswerStream {
        answer,
        dialect,
        encoder: None,
        first,
        block_open: false,
        state: StreamState::Streaming,
    };
    let mut response = Response::new(Body::new(StreamBody::new(frames(streaming))));
    let headers = response.headers_mut();
    for (name, value) in STREAM_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    insert_turn_headers(headers, turn, session);
    response
}

struct AnswerStream<D: Dialect> {
    answer: LiveAnswer,
    dialect: D,
    /// Created with the first chunk.
    encoder: Option<D::Encoder>,
    first: Option<Vec<AnswerChunk>>,
    block_open: bool,
    state: StreamState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Streaming,
    /// Everything is sent except the trailer with the final status.
    BodySent,
    Over,
}

fn frames<D: Dialect>(
    streaming: AnswerStream<D>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    stream::unfold(streaming, |mut this| async move {
        let frame = this.frame().await?;
        Some((Ok(frame), this))
    })
}

impl<D: Dialect> AnswerStream<D> {
    async fn frame(&mut self) -> Option<Frame<Bytes>> {
        let mut out = Vec::new();
        while self.state == StreamState::Streaming && out.is_empty() {
            match self.first.take() {
                Some(pieces) => self.encode(&pieces, &mut out),
                None => match self.answer.next_chunks(KEEP_ALIVE_INTERVAL).await {
                    Ok(NextChunks::Chunks(pieces)) => self.encode(&pieces, &mut out),
                    Ok(NextChunks::Idle) => out.extend_from_slice(D::keep_alive()),
                    Ok(NextChunks::Over) => self.state = StreamState::BodySent,
                    Err(error) => {
                        self.encode_error(&error, &mut out);
                        self.state = StreamState::BodySent;
                    }
                },
            }
        }
        if !out.is_empty() {
            return Some(Frame::data(out.into()));
        }
        if self.state == StreamState::Over {
            return None;
        }
        self.state = StreamState::Over;
        let mut trailers = HeaderMap::new();
        let status = self.answer.status.unwrap_or("failed");
        trailers.insert(STATUS_HEADER, HeaderValue::from_static(status));
        Some(Frame::trailers(trailers))
    }

    fn encode(&mut self, pieces: &[AnswerChunk], out: &mut Vec<u8>) {
        for piece in pieces {
            match piece {
                AnswerChunk::Start(begin) => {
                    self.encoder = Some(self.dialect.encoder(&self.answer.request, begin));
                }
                AnswerChunk::Open(_) => self.block_open = true,
                AnswerChunk::Close => self.block_open = false,
                AnswerChunk::More(_) | AnswerChunk::End(_) => {}
            }
            if let Some(encoder) = &mut self.encoder {
                encoder.encode(piece, out);
            }
        }
    }

    /// Ends a stream with an error. A stream that has begun is never cut: its events are completed,
    /// and its text says what happened.
    fn encode_error(&mut self, error: &DialectError, out: &mut Vec<u8>) {
        let mut pieces = Vec::new();
        if self.encoder.is_none() {
            pieces.push(AnswerChunk::Start(self.answer.header()));
        }
        if self.block_open {
            pieces.push(AnswerChunk::Close);
        }
        let kind = match error.kind {
            ErrorKind::Failed(kind) => kind,
            ErrorKind::Busy => FailureKind::RateLimited,
            _ => FailureKind::Invalid,
        };
        let mut failure = Failure::new(kind, error.message.as_str());
        failure.hint = error.hint.as_deref().map(Into::into);
        failure.retry_after = error.retry_after;
        pieces.extend([
            AnswerChunk::Open(BlockKind::Text),
            AnswerChunk::More(format!("[the turn failed: {error}]").into()),
            AnswerChunk::Close,
            AnswerChunk::End(AnswerEnd {
                stop: StopReason::Failed(failure),
                usage: Usage::default(),
                status: "failed",
            }),
        ]);
        self.encode(&pieces, out);
    }
}
