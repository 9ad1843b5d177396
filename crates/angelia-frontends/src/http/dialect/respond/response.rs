//! Chooses the response for an answer: a stream of events, one object, or an error.

use std::time::Duration;

use angelia_core::model::FailureKind;
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use http_body_util::StreamBody;

use super::{Dialect, stream::AnswerStream};
use crate::http::{
    ErrorKind, HttpError,
    dialect::answer::{LiveAnswer, NextChunks},
    sse,
};

/// How long the response headers wait for the first chunk. Once they are sent, a failure can no
/// longer become an HTTP error.
const FIRST_CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

const TURN_HEADER: HeaderName = HeaderName::from_static("x-angelia-turn");
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-angelia-session");
pub(super) const STATUS_HEADER: HeaderName = HeaderName::from_static("x-angelia-status");
const SHOULD_RETRY_HEADER: HeaderName = HeaderName::from_static("x-should-retry");

pub(in crate::http) async fn respond<D: Dialect>(answer: LiveAnswer, dialect: D) -> Response {
    if answer.request.body.stream {
        stream_response(answer, dialect).await
    } else {
        complete_response(answer, dialect).await
    }
}

/// Returns the response for an error, encoded by the dialect.
pub(in crate::http) fn error_response<D: Dialect>(error: &HttpError) -> Response {
    error.response(D::encode_error(error))
}

pub(in crate::http) fn json_response(json: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Returns the response for an error in a turn that has run.
fn turn_error_response<D: Dialect>(error: &HttpError, answer: &LiveAnswer) -> Response {
    let mut response = error_response::<D>(error);
    let headers = response.headers_mut();
    insert_turn_headers(headers, answer);
    if let Some(status) = answer.status {
        headers.insert(STATUS_HEADER, HeaderValue::from_static(status));
    }
    if is_transient(error.kind) {
        // A client that repeats the request after this error wants a new turn, not the failed one.
        answer.request.state.recent_requests.forget(answer.turn());
    } else {
        headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
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

fn insert_turn_headers(headers: &mut HeaderMap, answer: &LiveAnswer) {
    let (turn, session) = (answer.turn().to_string(), answer.session().to_string());
    for (name, id) in [(TURN_HEADER, turn), (SESSION_HEADER, session)] {
        if let Ok(value) = HeaderValue::try_from(id) {
            headers.insert(name, value);
        }
    }
}

async fn complete_response<D: Dialect>(mut answer: LiveAnswer, dialect: D) -> Response {
    loop {
        match answer.next_chunks(sse::KEEP_ALIVE_INTERVAL).await {
            Ok(NextChunks::Chunks(_) | NextChunks::Idle) => {}
            Ok(NextChunks::Over) => break,
            Err(error) => return turn_error_response::<D>(&error, &answer),
        }
    }
    let Some(complete) = answer.take_complete() else {
        let error = HttpError::internal("the answer is incomplete");
        return turn_error_response::<D>(&error, &answer);
    };
    let mut response = json_response(dialect.encode_complete(&complete));
    let headers = response.headers_mut();
    insert_turn_headers(headers, &answer);
    headers.insert(STATUS_HEADER, HeaderValue::from_static(complete.end.status));
    response
}

async fn stream_response<D: Dialect>(mut answer: LiveAnswer, dialect: D) -> Response {
    // A failure before the first chunk can still become an HTTP error.
    let first = loop {
        match answer.next_chunks(FIRST_CHUNK_TIMEOUT).await {
            Ok(NextChunks::Chunks(chunks)) if chunks.is_empty() => {}
            Ok(NextChunks::Chunks(chunks)) => break Some(chunks),
            Ok(NextChunks::Idle | NextChunks::Over) => break None,
            Err(error) => return turn_error_response::<D>(&error, &answer),
        }
    };
    let mut headers = HeaderMap::new();
    insert_turn_headers(&mut headers, &answer);
    headers.insert(header::TRAILER, HeaderValue::from_name(STATUS_HEADER));
    let frames = AnswerStream::new(answer, dialect, first).frames();
    (sse::HEADERS, headers, Body::new(StreamBody::new(frames))).into_response()
}
