//! The error format `{"type":"error","error":{"type","message"}}`, and its table.

use angelia_core::model::FailureKind;
use axum::http::StatusCode;

use super::{
    super::dialect::{DialectError, ErrorKind, Refused},
    wire::{Details, ErrorBody, ErrorDetail},
};

/// The reason why a request could not be decoded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotRead {
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The request continues a conversation that it expects us to have kept. On this error every
    /// client sends the whole conversation, which we recognise.
    #[error("no conversation is kept under this `previous_message_id`; send all of it again")]
    NoThread,
}

impl NotRead {
    pub fn body(&self) -> (StatusCode, Vec<u8>) {
        match self {
            Self::Refused(refused) => body(&refused.clone().into()),
            Self::NoThread => {
                let error = DialectError::new(ErrorKind::NotFound, self.to_string());
                let error_code = "thread_not_found";
                write(&error, Some(Details { error_code }))
            }
        }
    }
}

pub(super) fn body(error: &DialectError) -> (StatusCode, Vec<u8>) {
    write(error, None)
}

fn write(error: &DialectError, details: Option<Details>) -> (StatusCode, Vec<u8>) {
    let body = ErrorBody {
        kind: "error",
        error: ErrorDetail { kind: word(error.kind), message: error.to_string(), details },
    };
    // Writing text into memory cannot fail.
    let json = serde_json::to_vec(&body).unwrap_or_default();
    (error.status(), json)
}

/// Returns the error type; only types that the API's own clients know.
const fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Failed(FailureKind::Auth) | ErrorKind::NoKey => "authentication_error",
        ErrorKind::Failed(FailureKind::RateLimited) | ErrorKind::Busy => "rate_limit_error",
        // Claude Code retries this one twice, other failures of the server for minutes.
        ErrorKind::Failed(FailureKind::Unavailable) | ErrorKind::Stopping => "overloaded_error",
        ErrorKind::Failed(FailureKind::Timeout) | ErrorKind::TooSlow => "timeout_error",
        ErrorKind::Failed(FailureKind::Refused) | ErrorKind::NotGranted => "permission_error",
        ErrorKind::Failed(FailureKind::Agent | FailureKind::Internal) | ErrorKind::Interrupted => {
            "api_error"
        }
        ErrorKind::UnknownModel | ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::Failed(FailureKind::Invalid)
        | ErrorKind::Refused
        | ErrorKind::WrongMethod
        | ErrorKind::Conflict
        | ErrorKind::Misdirected
        | ErrorKind::Unmet => "invalid_request_error",
    }
}
