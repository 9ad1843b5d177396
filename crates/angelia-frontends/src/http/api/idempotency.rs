//! `Idempotency-Key`: a request that is sent again with the same key is the same request.

use std::time::Duration;

use angelia_core::engine::RequestKey;
use axum::http::HeaderMap;

use super::super::{ApiError, ConnectionSource};

const KEY_HEADER: &str = "idempotency-key";

/// Marks the response to a repeated request; it describes the turn of the first one.
pub(super) const REPEAT_HEADER: &str = "x-angelia-repeat";

pub(super) const IDEMPOTENCY_WINDOW: Duration = Duration::from_hours(24);

/// Longer than any key that a client generates. The key is stored with the turn.
const MAX_KEY_CHARS: usize = 255;

/// Returns the idempotency key of a request, if it has one.
pub(super) fn request_key(
    caller: &ConnectionSource,
    headers: &HeaderMap,
) -> Result<Option<RequestKey>, ApiError> {
    let mut given = headers.get_all(KEY_HEADER).into_iter();
    let Some(key) = given.next() else {
        return Ok(None);
    };
    let wrong = |why: &str| {
        ApiError::invalid(format!("Idempotency-Key: {why}"))
            .with_hint("make up a new key for each request, for example a UUID")
    };
    if given.next().is_some() {
        return Err(wrong("there must be only one"));
    }
    let Ok(key) = key.to_str() else {
        return Err(wrong("this must be printable ASCII"));
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(wrong("this must not be empty"));
    }
    if key.len() > MAX_KEY_CHARS {
        return Err(wrong(&format!("this must not exceed {MAX_KEY_CHARS} characters")));
    }
    Ok(Some(RequestKey {
        caller: caller.name().into(),
        key: key.into(),
        input: None,
        window: IDEMPOTENCY_WINDOW,
    }))
}
