//! `/api`: sessions, turns, approvals, the audit, the configuration, schedules, the bus, status, usage and
//! search, the profiles and executors of this machine, the signed-in browsers, the stream of all changes, and
//! the restart of the daemon.

mod approvals;
mod audit;
mod bus;
mod bus_queues;
mod changes;
mod config;
mod doors;
mod events;
mod input;
mod login;
mod machine;
mod paging;
mod reports;
pub(super) mod resource_reads;
mod restart;
mod schedules;
mod sessions;
mod status;
mod turns;

use std::{str::FromStr, sync::Arc};

use axum::{
    Router,
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
    routing::{delete, get, post},
};

pub(crate) use self::sessions::owners_name;
/// The request bodies that our own client sends.
pub use self::{
    approvals::DecisionBody,
    audit::AuditResource,
    bus::BusApi,
    input::TurnInput,
    login::{LoginBody, LoginCodeResource},
    restart::{RestartBody, RestartProgress, RestartRequest, RestartRequests},
    schedules::{NewScheduleBody, ScheduleChangeBody, find_zone, schedule_audit_subject},
    sessions::{CompactionResult, NewSessionBody, SessionChangeBody},
    status::{DaemonInfo, today_begins},
    turns::{IDEMPOTENCY_WINDOW, InterruptBody, REPEAT_HEADER, TurnBody},
};
/// The other request and response bodies, for the `OpenAPI` document.
pub(super) use self::{
    approvals::DecisionReceipt,
    audit::AuditParams,
    bus::{BusAccepted, BusEndpoint, BusMessageBody},
    bus_queues::{DeadParams, MessageResource, QueueParams},
    doors::{DeliveryParams, DeliveryResource, KeyResource},
    events::EventsQuery,
    login::{BrowserResource, LoginResource},
    paging::PageQuery,
    reports::{ColdParams, ColdStartResource, SearchParams, UsageParams},
};
use super::{ApiState, HttpError};

pub(super) fn routes() -> Router<Arc<ApiState>> {
    Router::new()
        .route("/events", get(changes::events))
        .route("/login", post(login::sign_in))
        .route("/login/codes", post(login::make_code))
        .route("/login/browsers", get(login::browsers))
        .route("/login/browsers/{browser}", delete(login::revoke))
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/sessions/{session}",
            get(sessions::show).patch(sessions::change).delete(sessions::delete),
        )
        .route("/sessions/{session}/turns", post(turns::submit))
        .route("/sessions/{session}/fork", post(sessions::fork))
        .route("/sessions/{session}/compact", post(sessions::compact))
        .route("/turns", get(turns::list))
        .route("/turns/{turn}", get(turns::show))
        .route("/turns/{turn}/events", get(events::events))
        .route("/turns/{turn}/interrupt", post(turns::interrupt))
        .route("/turns/{turn}/steer", post(turns::steer))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{approval}", post(approvals::decide))
        .route("/audit", get(audit::list))
        .route("/config", get(config::show))
        .route("/config/reload", post(config::reload))
        .route("/restart", post(restart::restart))
        .route("/schedules", get(schedules::list).post(schedules::create))
        .route(
            "/schedules/{schedule}",
            get(schedules::show).patch(schedules::change).delete(schedules::delete),
        )
        .route("/bus/endpoints", get(bus::endpoints))
        .route("/bus/messages", get(bus_queues::queued).post(bus::send))
        .route("/bus/dead", get(bus_queues::dead))
        .route("/bus/dead/{position}", delete(bus_queues::discard))
        .route("/bus/dead/{position}/resend", post(bus_queues::resend))
        .route("/bus/events", get(bus::events))
        .route("/status", get(status::status))
        .route("/agents", get(status::agents))
        .route("/quotas", get(status::quotas))
        .route("/usage", get(reports::usage))
        .route("/usage/cold", get(reports::cold_starts))
        .route("/channels", get(status::list_channels))
        .route("/keys", get(doors::keys))
        .route("/deliveries", get(doors::deliveries))
        .route("/search", get(reports::search))
        .route("/profiles", get(machine::profiles))
        .route("/executors", get(machine::executors))
}

/// Extracts the id from the path. A malformed id counts as not found.
struct PathId<T>(T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|error| HttpError::invalid(error.body_text()))?;
        match params.iter().next() {
            Some((what, id)) => id.parse().map(Self).map_err(|_| HttpError::not_found(what)),
            None => Err(HttpError::internal("the path of this handler has no id")),
        }
    }
}
