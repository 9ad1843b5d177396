//! The error format `{"error":{"message","type","param","code"}}` of both dialects, and its table.

use angelia_core::model::FailureKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::{ErrorKind, HttpError};

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiError")]
pub(in crate::http) struct OpenAiErrorBody<'a> {
    error: OpenAiErrorDetail<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OpenAiErrorDetail<'a> {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

/// Encodes an error for OpenAI's clients.
pub fn error_body(error: &HttpError) -> Vec<u8> {
    let (kind, code) = type_and_code(error.kind);
    let body = OpenAiErrorBody {
        error: OpenAiErrorDetail {
            message: error.to_string(),
            kind,
            param: error.field.as_deref(),
            code,
        },
    };
    // Writing to memory cannot fail.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Returns `type` and `code`. Clients act on the status; these are for people and logs.
const fn type_and_code(kind: ErrorKind) -> (&'static str, Option<&'static str>) {
    const INVALID: &str = "invalid_request_error";
    match kind {
        ErrorKind::Failed(FailureKind::Auth) => ("authentication_error", Some("agent_login")),
        ErrorKind::Failed(FailureKind::RateLimited) => {
            ("rate_limit_error", Some("rate_limit_exceeded"))
        }
        ErrorKind::Failed(FailureKind::Unavailable) => {
            ("server_error", Some("server_is_overloaded"))
        }
        ErrorKind::Failed(FailureKind::Invalid) | ErrorKind::Refused => (INVALID, None),
        ErrorKind::Failed(FailureKind::Refused) => (INVALID, Some("content_policy_violation")),
        ErrorKind::Failed(FailureKind::Timeout) => ("server_error", Some("timeout")),
        ErrorKind::Failed(FailureKind::Agent) => ("server_error", Some("agent_failed")),
        ErrorKind::Failed(FailureKind::Internal) => ("server_error", Some("internal_error")),
        ErrorKind::NotStarted => (INVALID, Some("agent_not_started")),
        ErrorKind::NoKey => ("authentication_error", Some("invalid_api_key")),
        ErrorKind::NotGranted => ("permission_error", Some("not_granted")),
        ErrorKind::UnknownModel => (INVALID, Some("model_not_found")),
        ErrorKind::NotFound => (INVALID, Some("not_found")),
        ErrorKind::WrongMethod => (INVALID, Some("method_not_allowed")),
        ErrorKind::TooSlow => (INVALID, Some("request_timeout")),
        ErrorKind::Conflict => (INVALID, Some("conflict")),
        ErrorKind::SessionHeld => ("server_error", Some("session_is_busy")),
        ErrorKind::TooLarge => (INVALID, Some("request_too_large")),
        ErrorKind::Misdirected => (INVALID, Some("unknown_host")),
        ErrorKind::Unmet => (INVALID, Some("output_not_as_demanded")),
        ErrorKind::Busy => ("rate_limit_error", Some("too_many_requests")),
        ErrorKind::Interrupted => (INVALID, Some("interrupted")),
        ErrorKind::Stopping => ("server_error", Some("server_is_stopping")),
    }
}
