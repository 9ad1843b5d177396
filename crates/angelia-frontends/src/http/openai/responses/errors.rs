//! The error of a failed response, with the codes that clients act on.

use std::time::Duration;

use angelia_core::model::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

/// The longest wait after which a client should retry on its own. A longer one is reported as an
/// exhausted quota.
const MAX_RETRY_WAIT: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ResponseError {
    code: &'static str,
    message: String,
}

impl From<&Failure> for ResponseError {
    fn from(failure: &Failure) -> Self {
        let mut message = failure.to_string();
        if let Some(wait) = failure.retry_after {
            // Clients look for exactly this phrase.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            message = format!("{message}; try again in {seconds}s");
        }
        Self { code: code(failure), message }
    }
}

/// Returns the error code. Clients show the message of `invalid_prompt` and do not retry; they do
/// retry `rate_limit_exceeded`, `server_is_overloaded` and `server_error`.
fn code(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Auth | FailureKind::Invalid | FailureKind::Refused => "invalid_prompt",
        FailureKind::RateLimited => match failure.retry_after {
            Some(wait) if wait <= MAX_RETRY_WAIT => "rate_limit_exceeded",
            _ => "insufficient_quota",
        },
        FailureKind::Unavailable => "server_is_overloaded",
        FailureKind::Timeout | FailureKind::Agent | FailureKind::Internal => "server_error",
    }
}
