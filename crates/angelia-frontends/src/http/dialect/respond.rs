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
    Block, Dialect, DialectError, Encoder, End, ErrorKind, Piece, Stop,
    answer::{Answer, Next},
};
use crate::event_json::whole_seconds;

/// How long the response headers wait for the first chunk. Once they are sent, a failure can no
/// longer be an HTTP error.
const FIRST: Duration = Duration::from_secs(30);

const KEEP_ALIVE: Duration = Duration::from_secs(15);

const TURN: HeaderName = HeaderName::from_static("x-angelia-turn");
const SESSION: HeaderName = HeaderName::from_static("x-angelia-session");
const STATUS: HeaderName = HeaderName::from_static("x-angelia-status");

const STREAM_HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-store"),
    // For proxies that would otherwise collect the stream before they pass it on.
    (HeaderName::from_static("x-accel-buffering"), "no"),
    (header::TRAILER, "x-angelia-status"),
];

pub(super) async fn respond<D: Dialect>(answer: Answer, dialect: D) -> Response {
    if answer.ask.stream { streamed(answer, dialect).await } else { whole(answer, dialect).await }
}

/// Returns the response for an error, encoded by the dialect.
pub(in crate::http) fn refuse<D: Dialect>(error: &DialectError) -> Response {
    let (status, body) = D::error(error);
    json(status, body, error)
}

pub(in crate::http) fn json(status: StatusCode, body: Vec<u8>, error: &DialectError) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (status, headers, body).into_response();
    let headers = response.headers_mut();
    if error.kind == ErrorKind::NoKey {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = error.retry_after {
        headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
    }
    response
}

/// Returns whether repeating the same request may succeed.
const fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Failed(FailureKind::RateLimited | FailureKind::Unavailable)
            | ErrorKind::Busy
            | ErrorKind::Stopping
    )
}

/// Returns the response for an error of a turn that has run.
fn failed<D: Dialect>(error: &DialectError, answer: &Answer) -> Response {
    let mut response = refuse::<D>(error);
    let headers = response.headers_mut();
    name(headers, answer.turn, answer.session);
    if let Some(status) = answer.status {
        headers.insert(STATUS, HeaderValue::from_static(status));
    }
    if is_passing(error.kind) {
        // A client that repeats the request after this error wants a new turn, not the failed one.
        answer.state.recent.forget(answer.turn);
    } else {
        let name = HeaderName::from_static("x-should-retry");
        headers.insert(name, HeaderValue::from_static("false"));
    }
    response
}

fn name(headers: &mut HeaderMap, turn: TurnId, session: SessionId) {
    for (name, id) in [(TURN, turn.to_string()), (SESSION, session.to_string())] {
        if let Ok(value) = HeaderValue::try_from(id) {
            headers.insert(name, value);
        }
    }
}

async fn whole<D: Dialect>(mut answer: Answer, dialect: D) -> Response {
    loop {
        match answer.next(KEEP_ALIVE).await {
            Ok(Next::Pieces(_) | Next::Idle) => {}
            Ok(Next::Over) => break,
            Err(error) => return failed::<D>(&error, &answer),
        }
    }
    let Some(whole) = answer.whole() else {
        let kind = ErrorKind::Failed(FailureKind::Internal);
        return failed::<D>(&DialectError::new(kind, "the answer is incomplete"), &answer);
    };
    let body = dialect.whole(&answer.ask, &whole);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (headers, body).into_response();
    let headers = response.headers_mut();
    name(headers, answer.turn, answer.session);
    headers.insert(STATUS, HeaderValue::from_static(whole.end.status));
    response
}

async fn streamed<D: Dialect>(mut answer: Answer, dialect: D) -> Response {
    // A failure before the first chunk is still an HTTP error.
    let first = loop {
        match answer.next(FIRST).await {
            Ok(Next::Pieces(pieces)) if pieces.is_empty() => {}
            Ok(Next::Pieces(pieces)) => break Some(pieces),
            Ok(Next::Idle | Next::Over) => break None,
            Err(error) => return failed::<D>(&error, &answer),
        }
    };
    let (turn, session) = (answer.turn, answer.session);
    let streaming =
        Streaming { answer, dialect, encoder: None, first, block_open: false, state: State::Going };
    let mut response = Response::new(Body::new(StreamBody::new(frames(streaming))));
    let headers = response.headers_mut();
    for (name, value) in STREAM_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    name(headers, turn, session);
    response
}

struct Streaming<D: Dialect> {
    answer: Answer,
    dialect: D,
    /// Created with the first chunk.
    encoder: Option<D::Encoder>,
    first: Option<Vec<Piece>>,
    block_open: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    /// Everything is sent except the trailer with the final status.
    Said,
    Over,
}

fn frames<D: Dialect>(
    streaming: Streaming<D>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    stream::unfold(streaming, |mut this| async move {
        let frame = this.frame().await?;
        Some((Ok(frame), this))
    })
}

impl<D: Dialect> Streaming<D> {
    async fn frame(&mut self) -> Option<Frame<Bytes>> {
        let mut out = Vec::new();
        while self.state == State::Going && out.is_empty() {
            match self.first.take() {
                Some(pieces) => self.encode(&pieces, &mut out),
                None => match self.answer.next(KEEP_ALIVE).await {
                    Ok(Next::Pieces(pieces)) => self.encode(&pieces, &mut out),
                    Ok(Next::Idle) => out.extend_from_slice(D::keep_alive()),
                    Ok(Next::Over) => self.state = State::Said,
                    Err(error) => {
                        self.end_with(&error, &mut out);
                        self.state = State::Said;
                    }
                },
            }
        }
        if !out.is_empty() {
            return Some(Frame::data(out.into()));
        }
        if self.state == State::Over {
            return None;
        }
        self.state = State::Over;
        let mut trailers = HeaderMap::new();
        let status = self.answer.status.unwrap_or("failed");
        trailers.insert(STATUS, HeaderValue::from_static(status));
        Some(Frame::trailers(trailers))
    }

    fn encode(&mut self, pieces: &[Piece], out: &mut Vec<u8>) {
        for piece in pieces {
            match piece {
                Piece::Begin(begin) => {
                    self.encoder = Some(self.dialect.encoder(&self.answer.ask, begin));
                }
                Piece::Open(_) => self.block_open = true,
                Piece::Close => self.block_open = false,
                Piece::More(_) | Piece::End(_) => {}
            }
            if let Some(encoder) = &mut self.encoder {
                encoder.piece(piece, out);
            }
        }
    }

    /// Ends a stream with an error. A stream that has begun is never cut: its events are completed,
    /// and its text says what happened.
    fn end_with(&mut self, error: &DialectError, out: &mut Vec<u8>) {
        let mut pieces = Vec::new();
        if self.encoder.is_none() {
            pieces.push(Piece::Begin(self.answer.begin()));
        }
        if self.block_open {
            pieces.push(Piece::Close);
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
            Piece::Open(Block::Text),
            Piece::More(format!("[the turn failed: {error}]").into()),
            Piece::Close,
            Piece::End(End {
                stop: Stop::Failed(failure),
                usage: Usage::default(),
                status: "failed",
            }),
        ]);
        self.encode(&pieces, out);
    }
}
