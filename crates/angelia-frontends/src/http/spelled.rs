//! Errors from before a dialect is chosen (guard, unknown path, wrong method), in the format that
//! the client of the path expects.

use axum::{
    extract::Request,
    http::HeaderMap,
    response::{IntoResponse, Response},
};

use super::{
    ApiError,
    anthropic::Messages,
    dialect::{DialectError, refuse},
    openai::chat::Chat,
};

pub(super) fn error(request: &Request, error: ApiError) -> Response {
    let path = request.uri().path();
    match of(path, request.headers()) {
        Spelling::Ours => error.into_response(),
        Spelling::Anthropic => refuse::<Messages>(&DialectError::from(error)),
        Spelling::OpenAi => refuse::<Chat>(&DialectError::from(error)),
    }
}

enum Spelling {
    Ours,
    Anthropic,
    OpenAi,
}

fn of(path: &str, headers: &HeaderMap) -> Spelling {
    let Some(path) = path.strip_prefix("/v1/") else {
        return Spelling::Ours;
    };
    let messages = path == "messages" || path.starts_with("messages/");
    if messages || (path.starts_with("models") && headers.contains_key("anthropic-version")) {
        Spelling::Anthropic
    } else {
        Spelling::OpenAi
    }
}
