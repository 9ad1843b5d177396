//! The HTTP frontend: `/api` for the owner's own programs, `/v1` for clients of model APIs, and
//! `/healthz`, over TCP and over the Unix socket.
//!
//! - [`ApiState`]: everything that the daemon provides.
//! - [`serve_tcp`], [`serve_unix`]: the listeners.
//! - [`router`]: maps paths to handlers; also for tests without a socket.
//! - `guard`: authenticates requests; [`reach`]: limits the routes of an agent's process;
//!   [`AgentDelegation`]: the profiles that its session may delegate to; `keys`: the principals and
//!   their keys. `early_errors`: errors that occur before a dialect is chosen, in the format that
//!   the client expects.
//! - [`AgentProcesses`]: the processes of agents, for `/api/agents`.
//! - [`BrowserLogins`]: the browsers that the owner is signed in with; `page`: the files of the
//!   dashboard; [`ChangeFeed`]: the stream of all changes.
//! - `caller_limits`: limits one caller's share of the daemon. [`ConfigControl`]: the daemon's
//!   configuration.
//! - `body`: reads the body and the query of a request; `idempotency`: its key; [`HttpError`]: the
//!   error responses; `sse`: the parts that all event streams share.
//! - [`resources`]: the JSON types of sessions, turns and approvals.
//! - `api`: the handlers of `/api`. `v1`: the model APIs, built on [`dialect`], [`anthropic`] and
//!   [`openai`].

mod agent_delegation;
mod agent_processes;
pub mod anthropic;
mod api;
mod body;
mod caller_limits;
mod config_control;
pub mod dialect;
mod early_errors;
mod error;
mod feed;
mod guard;
mod health;
mod hooks;
mod idempotency;
mod keys;
mod logins;
mod metrics;
mod models;
pub mod openai;
mod openapi;
mod page;
mod reach;
pub mod resources;
mod serve;
mod sse;
mod state;
mod v1;

use std::sync::Arc;

use angelia_core::model::ExternalName;

use axum::{
    Router, middleware,
    routing::{get, post},
};

pub use agent_delegation::{AgentDelegation, DelegatedTurnLimits};
pub use agent_processes::{AgentProcess, AgentProcesses};
pub(crate) use api::owners_name;
pub use api::{
    BusApi, CompactionResult, DaemonInfo, DecisionBody, IDEMPOTENCY_WINDOW, InterruptBody,
    LoginBody, LoginCodeResource, NewScheduleBody, NewSessionBody, REPEAT_HEADER, RestartBody,
    RestartProgress, RestartRequest, RestartRequests, ScheduleChangeBody, SessionChangeBody,
    TurnBody, TurnInput, find_zone, schedule_audit_subject, today_begins,
};
pub use caller_limits::CallerLimits;
pub use config_control::{ConfigControl, ConfigReload, ConfigResource, ConfigState};
pub use error::{ErrorBody, ErrorDetail, ErrorKind, HttpError};
pub use feed::ChangeFeed;
pub use guard::ConnectionSource;
pub use health::HealthStatus;
pub use idempotency::KEY_HEADER;
pub use keys::{AccessKey, AccessKeys, AllowedModels, Grant, Principal, key_name};
pub use logins::BrowserLogins;
pub use metrics::Metrics;
pub use reach::AgentAccess;
pub use serve::{serve_tcp, serve_unix};
pub use state::{ApiState, OwnerToken};

/// Marks a request with the owner at a terminal behind it. Only our own command-line client sends
/// this, and it counts only over the Unix socket.
pub const TERMINAL_HEADER: &str = "x-angelia-terminal";

/// The scope of session names that the owner chooses, here and with `run -s`.
pub const OWNER_NAME_SCOPE: &str = ExternalName::OWNER_SCOPE;

/// Routes every path. A request must carry its [`ConnectionSource`] as an extension; the listeners
/// insert it.
pub fn router(state: Arc<ApiState>) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::get_metrics))
        .route("/openapi.json", get(openapi::get_document))
        .route("/hooks/{name}", post(hooks::receive))
        .nest("/api", api::routes().layer(middleware::map_response(page::forbid_caching)))
        .nest("/v1", v1::routes())
        .merge(anthropic::probes())
        .merge(page::routes())
        .fallback(page::no_such_path)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), caller_limits::apply))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::authenticate))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), metrics::count_request))
        .with_state(state)
}
