//! Errors that occur before a dialect is chosen (guard, unknown path, wrong method), in the format
//! that clients of the path expect.

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};

use super::{HttpError, anthropic::MessagesDialect, dialect, openai::chat::ChatDialect};

pub(super) fn error_response(request: &Request, error: HttpError) -> Response {
    let Some(path) = request.uri().path().strip_prefix("/v1/") else {
        return error.into_response();
    };
    let messages = path == "messages" || path.starts_with("messages/");
    let anthropic_models =
        path.starts_with("models") && request.headers().contains_key("anthropic-version");
    if messages || anthropic_models {
        dialect::error_response::<MessagesDialect>(&error)
    } else {
        dialect::error_response::<ChatDialect>(&error)
    }
}
