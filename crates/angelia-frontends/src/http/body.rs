//! Reads a request: its body as JSON, and the query of its URL. Errors name the offending field.
//! Invalid characters in a body become U+FFFD here, for every path.

use std::{borrow::Cow, time::Duration};

use angelia_wire::near_json;
use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use http_body_util::BodyExt;
use hyper::body::Frame;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::{
    ErrorKind, HttpError,
    caller_limits::{self, BodyQuota, BodyReservation},
    dialect::json::parse_object,
};

/// The limit on the body of a request.
const MAX_BODY_BYTES: usize = 64 << 20;

/// How much of an oversized body is read and discarded. Without this, a client that writes
/// everything before it reads would see a broken connection instead of the error.
const MAX_DISCARDED_BYTES: usize = 2 * MAX_BODY_BYTES;

/// Bodies of at least this size wait for their turn among those of their caller, and are decoded
/// outside the runtime's threads: decoding takes milliseconds, for which other callers would have
/// to wait.
const LARGE_BODY_BYTES: usize = 256 << 10;

/// The body of a fast client is always ready, so after this many bytes we yield to the other tasks
/// of the thread.
const SLICE_BYTES: usize = 64 << 10;

/// The time limit for the whole body. On this machine, even the largest takes less than a second.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Extracts the body as JSON. An empty body counts as `{}`.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static, S: Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, state: &S) -> Result<Self, HttpError> {
        let body = BodyBytes::from_request(request, state).await?;
        body.decode(|bytes| {
            let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
            parse_object(bytes).map_err(|error| HttpError::invalid(error.to_string()))
        })
        .await
        .map(Self)
    }
}

/// Extracts the raw body.
pub(super) struct BodyBytes {
    bytes: Bytes,
    /// Charges the body to its caller for as long as the body, or the data decoded from it, is in
    /// memory.
    pub(super) reservation: Option<BodyReservation>,
}

impl<S: Sync> FromRequest<S> for BodyBytes {
    type Rejection = HttpError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, HttpError> {
        let (parts, body) = request.into_parts();
        let mut reservation = parts.extensions.get::<BodyQuota>().map(BodyQuota::open);
        let bytes = read_body(&parts.headers, body, reservation.as_mut()).await?;
        Ok(Self { bytes, reservation })
    }
}

impl BodyBytes {
    /// Returns the body as received, for checking a signature.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes the body as JSON, with invalid characters replaced.
    pub(super) async fn decode<T: Send + 'static>(
        &self,
        decode: impl FnOnce(&Bytes) -> Result<T, HttpError> + Send + 'static,
    ) -> Result<T, HttpError> {
        let bytes = self.bytes.clone();
        let decode = move || decode(&repaired(bytes));
        if self.bytes.len() < LARGE_BODY_BYTES { decode() } else { compute(decode).await? }
    }
}

/// Does work for a request. If the body is large, does it outside the runtime's threads.
pub(super) async fn compute_for<T: Send + 'static>(
    reservation: Option<&BodyReservation>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpError> {
    match reservation {
        Some(body) if body.bytes() >= LARGE_BODY_BYTES => compute(work).await,
        _ => Ok(work()),
    }
}

async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| HttpError::internal(format!("the body was not decoded: {error}")))
}

/// Reads the body within its limits on size and time.
async fn read_body(
    headers: &HeaderMap,
    body: Body,
    reservation: Option<&mut BodyReservation>,
) -> Result<Bytes, HttpError> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > MAX_DISCARDED_BYTES) {
        return Err(too_large());
    }
    let announced = announced.filter(|length| *length <= MAX_BODY_BYTES).unwrap_or_default();
    let deadline = Instant::now() + BODY_TIMEOUT;
    BodyReader { body, deadline, reservation }.collect(announced).await
}

/// Reads a body piece by piece.
struct BodyReader<'a> {
    body: Body,
    deadline: Instant,
    reservation: Option<&'a mut BodyReservation>,
}

impl BodyReader<'_> {
    async fn collect(mut self, announced: usize) -> Result<Bytes, HttpError> {
        // Refuse a body that has no room before its bytes take up memory.
        self.reserve(announced).await?;
        let mut bytes = Vec::with_capacity(announced);
        let mut length = 0;
        let mut read_without_pause = 0;
        while let Some(data) = self.next_data().await? {
            length += data.len();
            if length <= MAX_BODY_BYTES {
                self.reserve(length).await?;
                bytes.extend_from_slice(&data);
            } else if length <= MAX_DISCARDED_BYTES {
                // The body is too large: free the memory, but keep reading, so that the client gets
                // the error.
                bytes = Vec::new();
            } else {
                break;
            }
            read_without_pause += data.len();
            if read_without_pause >= SLICE_BYTES {
                read_without_pause = 0;
                tokio::task::yield_now().await;
            }
        }
        if length > MAX_BODY_BYTES {
            return Err(too_large());
        }
        Ok(bytes.into())
    }

    /// Reserves room for `length` bytes of the body. A large body first waits for its turn, so that
    /// waiting bodies take neither memory nor time.
    async fn reserve(&mut self, length: usize) -> Result<(), HttpError> {
        let Some(reservation) = self.reservation.as_deref_mut() else {
            return Ok(());
        };
        if length >= LARGE_BODY_BYTES {
            timeout_at(self.deadline, reservation.take_turn()).await.map_err(|_elapsed| {
                let message = "too many large request bodies of this caller are waiting";
                caller_limits::busy(message.to_owned(), "send fewer large requests at once")
            })?;
        }
        reservation.extend_to(length)
    }

    async fn next_data(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            match self.next_frame().await?.map(Frame::into_data) {
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(_trailers)) => {}
                None => return Ok(None),
            }
        }
    }

    async fn next_frame(&mut self) -> Result<Option<Frame<Bytes>>, HttpError> {
        let turn_ends = self.reservation.as_ref().and_then(|reservation| reservation.turn_ends());
        let within_turn = match turn_ends {
            Some(ends) => timeout_at(ends.min(self.deadline), self.body.frame()).await.ok(),
            None => None,
        };
        let frame = if let Some(frame) = within_turn {
            frame
        } else {
            // The client pauses. Read the caller's other bodies meanwhile.
            if let Some(reservation) = self.reservation.as_deref_mut() {
                reservation.end_turn();
            }
            timeout_at(self.deadline, self.body.frame()).await.map_err(|_elapsed| {
                HttpError::new(ErrorKind::TooSlow, "the body did not arrive in time")
            })?
        };
        frame.transpose().map_err(|error| {
            HttpError::invalid(format!("the body could not be read to its end: {error}"))
        })
    }
}

fn repaired(body: Bytes) -> Bytes {
    match near_json::repair(&body) {
        Cow::Borrowed(json) if json.len() == body.len() => body,
        Cow::Borrowed(json) => body.slice_ref(json),
        Cow::Owned(json) => json.into(),
    }
}

fn too_large() -> HttpError {
    let message = format!("the body is larger than {} MiB", MAX_BODY_BYTES >> 20);
    HttpError::new(ErrorKind::TooLarge, message)
        .with_hint("send less at once; let the agent read large material from files")
}

/// Extracts the query of the URL.
pub(super) struct QueryParams<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, HttpError> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(HttpError::invalid(error.body_text())),
        }
    }
}
