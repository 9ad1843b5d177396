//! HTTP: `/api` for the owner's own programs, and `/healthz`, over TCP and over the Unix socket.
//!
//! - [`ApiState`]: what the daemon hands in.
//! - [`serve_tcp`], [`serve_unix`]: the listeners.
//! - [`router`]: paths to handlers, for tests without a socket.
//! - `guard`: who may ask at all; `keys`: who that is. `spelled`: refusals in the caller's words.
//! - `body`: what a request says; [`ApiError`]: what is answered when it cannot be done.
//! - [`resources`]: sessions, turns and approvals as callers see them.
//! - `api`: the handlers. `v1`: the model APIs, by way of [`dialect`], [`anthropic`] and [`openai`].

pub mod anthropic;
mod api;
mod body;
pub mod dialect;
mod error;
mod guard;
mod health;
mod keys;
mod metrics;
mod models;
pub mod openai;
mod openapi;
pub mod resources;
mod serve;
mod spelled;
mod state;
mod v1;

use std::sync::Arc;

use axum::{Router, middleware, routing::get};

pub use api::BusApi;
pub use error::{ApiError, ErrorBody, ErrorDetail};
pub use guard::Caller;
pub use health::Hello;
pub use keys::{Allowed, Grant, Key, Keys, Who};
pub use metrics::Metrics;
pub use serve::{serve_tcp, serve_unix};
pub use state::{ApiState, OwnerToken};

/// Says that the owner sits at a terminal behind this request; only our own command-line client
/// sends it, and it counts only over the Unix socket.
pub const TERMINAL_HEADER: &str = "x-angelia-terminal";

/// The scope of the names that the owner gives to sessions, here and with `run -s`.
pub const OWNERS_NAMES: &str = "run";

/// Every path. A request must carry its [`Caller`] as an extension; the listeners put it there.
pub fn router(state: Arc<ApiState>) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::show))
        .route("/openapi.json", get(openapi::show))
        .nest("/api", api::routes())
        .nest("/v1", v1::routes())
        .merge(anthropic::probes())
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::guard))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), metrics::count))
        .with_state(state)
}
