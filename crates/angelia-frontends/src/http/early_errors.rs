//! Errors from before a dialect is chosen (guard, unknown path, wrong method), in the format that
//! the client of the path expects.

use axum::{
    extract::Request,
    http::HeaderMap,
    response::{IntoResponse, Response},
};

use super::{
    ApiError,
    anthropic::MessagesDialect,
    dialect::{self, DialectError},
    openai::chat::ChatDialect,
};

pub(super) fn error_response(request: &Request, error: ApiError) -> Response {
    let path = request.uri().path();
    match error_format(path, request.headers()) {
        ErrorFormat::Angelia => error.into_response(),
        ErrorFormat::Anthropic => {
            dialect::error_response::<MessagesDialect>(&DialectError::from(error))
        }
        ErrorFormat::OpenAi => dialect::error_response::<ChatDialect>(&DialectError::from(error)),
    }
}

enum ErrorFormat {
    Angelia,
    Anthropic,
    OpenAi,
}

fn error_format(path: &str, headers: &HeaderMap) -> ErrorFormat {
    let Some(path) = path.strip_prefix("/v1/") else {
        return ErrorFormat::Angelia;
    };
    let messages = path == "messages" || path.starts_with("messages/");
    if messages || (path.starts_with("models") && headers.contains_key("anthropic-version")) {
        ErrorFormat::Anthropic
    } else {
        ErrorFormat::OpenAi
    }
}
