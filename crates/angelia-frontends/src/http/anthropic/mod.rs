//! Anthropic's Messages API: `POST /v1/messages`, `POST /v1/messages/count_tokens`, and the probes
//! that Claude Code sends before its first request.
//!
//! - `wire`: the JSON types. `decode`, `blocks`, `tools`: request → `ModelRequest`. `encode`:
//!   chunks → events.
//! - `errors`: the error format and its table. `count_tokens`: the estimate.

mod blocks;
mod count_tokens;
mod decode;
mod encode;
mod errors;
mod tools;
pub(super) mod wire;

use std::sync::Arc;

use axum::{Router, http::StatusCode, routing::head};

use super::ApiState;

pub use count_tokens::count_tokens;
pub use decode::decode;
pub use encode::{MessagesDialect, MessagesEncoder};

/// Routes the probes that Claude Code sends before its first request, to open its connection early.
/// It sends no key with them and ignores the response.
pub(super) fn probes() -> Router<Arc<ApiState>> {
    let here = || async { StatusCode::NO_CONTENT };
    Router::new().route("/", head(here)).route("/api/hello", head(here))
}
