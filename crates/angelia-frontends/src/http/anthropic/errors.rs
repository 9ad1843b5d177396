//! The error format `{"type":"error","error":{"type","message"}}`, and its table.

use angelia_core::model::FailureKind;

use super::{
    super::{ErrorKind, HttpError},
    wire::{MessagesErrorBody, MessagesErrorDetail, MessagesErrorDetails},
};

/// The code for a request that continues a conversation which it expects us to have kept. After
/// this error, every client sends the whole conversation, which we recognise.
pub(super) const THREAD_NOT_FOUND: &str = "thread_not_found";

pub(super) fn error_body(error: &HttpError) -> Vec<u8> {
    let error_code = error.code.filter(|code| *code == THREAD_NOT_FOUND);
    let body = MessagesErrorBody {
        kind: "error",
        error: MessagesErrorDetail {
            kind: error_type(error.kind),
            message: error.to_string(),
            details: error_code.map(|error_code| MessagesErrorDetails { error_code }),
        },
    };
    // Writing to memory cannot fail.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Returns the error type, which must be one that the API's own clients know.
const fn error_type(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Failed(FailureKind::Auth) | ErrorKind::NoKey => "authentication_error",
        ErrorKind::Failed(FailureKind::RateLimited) | ErrorKind::Busy => "rate_limit_error",
        // Claude Code retries this error twice, but other server errors for minutes.
        ErrorKind::Failed(FailureKind::Unavailable) | ErrorKind::Stopping => "overloaded_error",
        ErrorKind::Failed(FailureKind::Timeout) | ErrorKind::TooSlow => "timeout_error",
        ErrorKind::Failed(FailureKind::Refused) | ErrorKind::NotGranted => "permission_error",
        ErrorKind::Failed(FailureKind::Agent | FailureKind::Internal)
        | ErrorKind::Interrupted
        | ErrorKind::SessionHeld => "api_error",
        ErrorKind::UnknownModel | ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::Failed(FailureKind::Invalid)
        | ErrorKind::NotStarted
        | ErrorKind::Refused
        | ErrorKind::WrongMethod
        | ErrorKind::Conflict
        | ErrorKind::Misdirected
        | ErrorKind::Unmet => "invalid_request_error",
    }
}
