//! The error objects that Chat Completions and Responses share.

use serde_json::{Value, json};

use super::fault::ApiError;

/// Returns the error object for a status.
pub(super) fn of_status(status: u16, message: Option<&str>) -> Value {
    let (kind, code, text) = match status {
        401 => ("invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
        404 => ("invalid_request_error", "model_not_found", "The model does not exist"),
        429 => ("requests", "rate_limit_exceeded", "Rate limit reached"),
        400..500 => ("invalid_request_error", "invalid_request", "invalid request"),
        503 => ("server_error", "server_is_overloaded", "Our servers are currently overloaded"),
        _ => ("server_error", "server_error", "The server had an error"),
    };
    json!({"error": {"message": message.unwrap_or(text), "type": kind, "code": code,
        "param": null}})
}

/// Returns the status and the error object of an error that has its own code.
pub(super) fn of_kind(refusal: ApiError) -> (u16, Value) {
    let invalid = "invalid_request_error";
    let (status, kind, code, words) = match refusal {
        ApiError::InsufficientQuota => {
            let words = "You exceeded your current quota, please check your plan.".to_owned();
            (429, "insufficient_quota", "insufficient_quota", words)
        }
        ApiError::Overflow { window } => {
            let words = format!("This model's maximum context length is {window} tokens.");
            (400, invalid, "context_length_exceeded", words)
        }
        ApiError::ReasoningRejected => {
            let words = "The encrypted content could not be verified.".to_owned();
            (400, invalid, "invalid_encrypted_content", words)
        }
        ApiError::ImageRefused => {
            (400, invalid, "invalid_value", "This model does not support image input.".to_owned())
        }
        ApiError::ImageTooLarge => {
            (400, invalid, "invalid_value", "The image is too large.".to_owned())
        }
        ApiError::OutputCap { limit } => {
            let words = format!("max_tokens is too large: this model supports at most {limit}.");
            (400, invalid, "invalid_value", words)
        }
    };
    let error = json!({"message": words, "type": kind, "code": code, "param": null});
    (status, json!({"error": error}))
}
