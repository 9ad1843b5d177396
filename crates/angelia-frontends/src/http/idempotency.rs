//! `Idempotency-Key`: requests with the same key count as the same request.

use axum::http::HeaderMap;

use super::HttpError;

/// Longer than any key that clients generate. The key is stored with the turn.
const MAX_KEY_CHARS: usize = 255;

/// Names a request that must run at most once.
pub const KEY_HEADER: &str = "idempotency-key";

/// Returns the idempotency key of a request, if it has one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, HttpError> {
    let mut given = headers.get_all(KEY_HEADER).into_iter();
    let Some(key) = given.next() else {
        return Ok(None);
    };
    let invalid = |why: &str| {
        Err(HttpError::invalid(format!("Idempotency-Key: {why}"))
            .with_hint("make up a new key for each request, for example a UUID"))
    };
    if given.next().is_some() {
        return invalid("there must be only one");
    }
    match key.to_str().map(str::trim) {
        Err(_) => invalid("this must be printable ASCII"),
        Ok("") => invalid("this must not be empty"),
        Ok(key) if key.len() > MAX_KEY_CHARS => {
            invalid(&format!("this must not exceed {MAX_KEY_CHARS} characters"))
        }
        Ok(key) => Ok(Some(key)),
    }
}
