//! The error format `{"type":"error","error":{"type","message"}}`, and its table.

use angelia_core::model::FailureKind;
use axum::http::StatusCode;

use super::{
    super::dialect::{DialectError, ErrorKind, InvalidRequest},
    wire::{MessagesErrorBody, MessagesErrorDetail, MessagesErrorDetails},
};

/// The reason why a request could not be decoded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MessagesDecodeError {
    #[error(transparent)]
    InvalidRequest(#[from] InvalidRequest),
    /// The request continues a conversation that it expects us to have kept. On this error every
    /// client sends the whole conversation, which we recognise.
    #[error("no conversation is kept under this `previous_message_id`; send all of it again")]
    ThreadNotFound,
}

impl MessagesDecodeError {
    pub fn to_response(&self) -> (StatusCode, Vec<u8>) {
        match self {
            Self::InvalidRequest(refused) => error_body(&refused.clone().into()),
            Self::ThreadNotFound => {
                let error = DialectError::new(ErrorKind::NotFound, self.to_string());
                let error_code = "thread_not_found";
                write_error(&error, Some(MessagesErrorDetails { error_code }))
            }
        }
    }
}

pub(super) fn error_body(error: &DialectError) -> (StatusCode, Vec<u8>) {
    write_error(error, None)
}

fn write_error(
    error: &DialectError,
    details: Option<MessagesErrorDetails>,
) -> (StatusCode, Vec<u8>) {
    let body = MessagesErrorBody {
        kind: "error",
        error: MessagesErrorDetail {
            kind: error_type(error.kind),
            message: error.to_string(),
            details,
        },
    };
    // Writing text into memory cannot fail.
    let json = serde_json::to_vec(&body).unwrap_or_default();
    (error.status(), json)
}

/// Returns the error type; only types that the API's own clients know.
const fn error_type(kind: ErrorKind) -> &'static str {
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
