//! Anthropic's Messages API: `POST /v1/messages`, `POST /v1/messages/count_tokens`, and the probes
//! that Claude Code sends before its first request.
//!
//! - `wire`: the shapes. `decode`, `blocks`, `tools`: request → `Ask`. `encode`: pieces → events.
//! - `errors`: the table of errors. `count_tokens`: the estimate.

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
pub use encode::{Messages, Stream};
pub use errors::NotRead;

/// What Claude Code asks before its first request, to have a connection by then. It sends no key
/// with it and does not look at the answer.
pub(super) fn probes() -> Router<Arc<ApiState>> {
    let here = || async { StatusCode::NO_CONTENT };
    Router::new().route("/", head(here)).route("/api/hello", head(here))
}
