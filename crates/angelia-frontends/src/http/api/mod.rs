//! `/api`: sessions, turns, approvals, the bus, and what this machine has.

mod approvals;
mod bus;
mod events;
mod input;
mod machine;
mod once;
mod paging;
mod sessions;
mod turns;

use std::{str::FromStr, sync::Arc};

use axum::{
    Router,
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
    routing::{get, post},
};

pub use self::bus::BusApi;
/// The bodies, for the description of the paths.
pub(super) use self::{
    approvals::{Decided, DecisionBody},
    bus::{Accepted as BusAccepted, Endpoint as BusEndpoint, MessageBody as BusMessageBody},
    events::EventsQuery,
    paging::PageQuery,
    sessions::{ChangeBody, NewSessionBody},
    turns::{InterruptBody, TurnBody},
};
use super::{ApiError, ApiState};

pub(super) fn routes() -> Router<Arc<ApiState>> {
    Router::new()
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/sessions/{session}",
            get(sessions::show).patch(sessions::change).delete(sessions::delete),
        )
        .route("/sessions/{session}/turns", post(turns::submit))
        .route("/sessions/{session}/fork", post(sessions::fork))
        .route("/turns", get(turns::list))
        .route("/turns/{turn}", get(turns::show))
        .route("/turns/{turn}/events", get(events::events))
        .route("/turns/{turn}/interrupt", post(turns::interrupt))
        .route("/turns/{turn}/steer", post(turns::steer))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{approval}", post(approvals::decide))
        .route("/bus/endpoints", get(bus::endpoints))
        .route("/bus/messages", post(bus::send))
        .route("/bus/events", get(bus::events))
        .route("/profiles", get(machine::profiles))
        .route("/executors", get(machine::executors))
}

/// The id in the path. Text that is no id at all names nothing either.
struct Id<T>(T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|error| ApiError::invalid(error.body_text()))?;
        match params.iter().next() {
            Some((what, id)) => id.parse().map(Self).map_err(|_| ApiError::not_found(what)),
            None => Err(ApiError::internal("a path without an id has no id")),
        }
    }
}
