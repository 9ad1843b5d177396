//! Reads a request: its body as JSON and the query of its URL. Errors name the offending field. What
//! is no character in a body becomes U+FFFD here, for every path.

use std::{borrow::Cow, time::Duration};

use angelia_core::model::FailureKind;
use angelia_wire::near_json;
use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::{
    ErrorKind, HttpError,
    caller_limits::{BodyQuota, BodyReservation},
    dialect::json::parse_object,
};

/// The product limit for the body of a request.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The part of an oversized body that is read and discarded. A client that writes everything before
/// it reads would otherwise see a broken connection instead of the error.
const MAX_DISCARDED_BYTES: usize = 2 * MAX_BODY_BYTES;

/// A body from this size on is decoded outside the threads of the runtime: it takes milliseconds, in
/// which other callers would wait.
const LARGE_BODY_BYTES: usize = 256 << 10;

/// The time for the whole body to arrive; from this machine even the largest takes less than a
/// second.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Extracts the body as JSON; an empty body counts as `{}`.
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

/// Extracts the body as it is.
pub(super) struct BodyBytes {
    bytes: Bytes,
    /// Counts the body for its caller as long as it, or what it was decoded into, is in memory.
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
    /// Decodes the body, as JSON whose characters are all valid.
    pub(super) async fn decode<T: Send + 'static>(
        &self,
        decode: impl FnOnce(&Bytes) -> Result<T, HttpError> + Send + 'static,
    ) -> Result<T, HttpError> {
        let bytes = self.bytes.clone();
        let decode = move || decode(&repaired(bytes));
        if self.bytes.len() < LARGE_BODY_BYTES {
            return decode();
        }
        let _permit = match &self.reservation {
            Some(reservation) => reservation.decoding_permit().await,
            None => None,
        };
        tokio::task::spawn_blocking(decode).await.unwrap_or_else(|error| {
            Err(HttpError::new(
                ErrorKind::Failed(FailureKind::Internal),
                format!("the body was not decoded: {error}"),
            ))
        })
    }
}

/// Reads the body within its limits of size and time.
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
    tokio::time::timeout(BODY_TIMEOUT, collect_limited(body, announced, reservation))
        .await
        .map_err(|_elapsed| HttpError::new(ErrorKind::TooSlow, "the body did not arrive in time"))?
}

async fn collect_limited(
    mut body: Body,
    announced: usize,
    mut reservation: Option<&mut BodyReservation>,
) -> Result<Bytes, HttpError> {
    // Refuse a body that has no room before its bytes take memory.
    if let Some(reservation) = reservation.as_deref_mut() {
        reservation.extend_to(announced)?;
    }
    let mut bytes = Vec::with_capacity(announced);
    let mut length = 0;
    let mut read_without_pause = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            HttpError::invalid(format!("the body could not be read to its end: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        if length <= MAX_BODY_BYTES {
            if let Some(reservation) = reservation.as_deref_mut() {
                reservation.extend_to(length)?;
            }
            bytes.extend_from_slice(&data);
        } else if length <= MAX_DISCARDED_BYTES {
            // Too large: free the memory, and keep reading so that the client gets the error.
            bytes = Vec::new();
        } else {
            break;
        }
        // A fast client's body is always ready: let the other tasks of this thread run.
        read_without_pause += data.len();
        if read_without_pause >= LARGE_BODY_BYTES {
            read_without_pause = 0;
            tokio::task::yield_now().await;
        }
    }
    if length > MAX_BODY_BYTES {
        return Err(too_large());
    }
    Ok(bytes.into())
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
