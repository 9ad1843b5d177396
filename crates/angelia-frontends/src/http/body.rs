//! Reads a request: its body as JSON and the query of its URL. Errors name the offending field.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::ApiError;

/// The product limit for the body of a request.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The part of an oversized body that is read and discarded. A client that writes everything before
/// it reads would otherwise see a broken connection instead of the error.
const MAX_DISCARDED_BYTES: usize = 2 * MAX_BODY_BYTES;

/// The time for the whole body to arrive; from this machine even the largest takes less than a
/// second.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Extracts the body as JSON; an empty body counts as `{}`.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(&parts.headers, body).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        parse_json(bytes).map(Self)
    }
}

/// Reads the body within its limits of size and time.
pub(super) async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > MAX_DISCARDED_BYTES) {
        return Err(ApiError::too_large(MAX_BODY_BYTES));
    }
    tokio::time::timeout(BODY_TIMEOUT, collect_limited(body))
        .await
        .map_err(|_elapsed| ApiError::too_slow())?
}

async fn collect_limited(mut body: Body) -> Result<Bytes, ApiError> {
    let mut bytes = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::invalid(format!("the body could not be read to its end: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        if length <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&data);
        } else if length <= MAX_DISCARDED_BYTES {
            // Too large: free the memory, and keep reading so that the client gets the error.
            bytes = Vec::new();
        } else {
            break;
        }
    }
    if length > MAX_BODY_BYTES {
        return Err(ApiError::too_large(MAX_BODY_BYTES));
    }
    Ok(bytes.into())
}

fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    if bytes.trim_ascii_start().starts_with(b"[") {
        // Serde would accept a list as the fields in order.
        return Err(ApiError::invalid("the body: this must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = error.path().to_string();
        let what = error.into_inner();
        if what.is_data() && place != "." {
            ApiError::invalid(format!("{place}: {what}"))
        } else if what.is_data() {
            ApiError::invalid(format!("the body: {what}"))
        } else {
            ApiError::invalid(format!("the body is not JSON: {what}"))
        }
    })?;
    json.end()
        .map_err(|error| ApiError::invalid(format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// Extracts the query of the URL.
pub(super) struct QueryParams<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => Err(ApiError::invalid(error.body_text())),
        }
    }
}
