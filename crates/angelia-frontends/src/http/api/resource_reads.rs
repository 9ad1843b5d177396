//! Reads resources in the form that their own paths show, for the change feed.

use angelia_core::{
    engine::{Engine, EngineError},
    model::{ApprovalRecord, SessionId, TurnRecord},
    ports::SessionQuery,
};

use super::{
    super::{
        ApiState, HttpError,
        resources::{
            AgentResource, ApprovalResource, ChannelResource, QuotaResource, ScheduleResource,
            SessionResource, TurnResource,
        },
    },
    bus::{self, BusEndpoint},
    doors::DeliveryResource,
    {approvals, schedules, sessions, status},
};

/// How many of the newest deliveries are tracked.
const MAX_DELIVERIES: usize = 50;

/// Returns a session, or `None` if it was deleted.
pub(in crate::http) async fn session(
    state: &ApiState,
    id: SessionId,
) -> Result<Option<SessionResource>, HttpError> {
    match state.engine.list_sessions(SessionQuery::One(id)).await?.first() {
        Some(found) => Ok(Some(sessions::described(state, found).await?)),
        None => Ok(None),
    }
}

/// Describes a turn, including what it is doing now if it runs.
pub(in crate::http) fn turn(engine: &Engine, record: &TurnRecord) -> TurnResource {
    TurnResource::from(record).with_activity(engine.turn_activity(record.id))
}

pub(in crate::http) async fn approvals(
    engine: &Engine,
    records: &[ApprovalRecord],
) -> Result<Vec<ApprovalResource>, EngineError> {
    approvals::approval_resources(engine, records).await
}

pub(in crate::http) async fn agents(state: &ApiState) -> Vec<AgentResource> {
    status::list_agents(state).await
}

pub(in crate::http) async fn quotas(engine: &Engine) -> Result<Vec<QuotaResource>, EngineError> {
    Ok(engine.quotas().await?.iter().map(Into::into).collect())
}

pub(in crate::http) async fn schedules(
    engine: &Engine,
) -> Result<Vec<ScheduleResource>, EngineError> {
    schedules::describe_all(engine, &engine.schedules().await?).await
}

pub(in crate::http) async fn deliveries(
    state: &ApiState,
) -> Result<Vec<DeliveryResource>, HttpError> {
    match &state.delivery_queue {
        Some(queue) => Ok(queue.list(MAX_DELIVERIES).await?.iter().map(Into::into).collect()),
        None => Ok(Vec::new()),
    }
}

pub(in crate::http) async fn channels(state: &ApiState) -> Result<Vec<ChannelResource>, HttpError> {
    status::channels_with_codes(state).await
}

/// Returns the endpoints of the bus; empty if there is no bus.
pub(in crate::http) fn endpoints(state: &ApiState) -> Vec<BusEndpoint> {
    state.bus.as_ref().map(bus::list_endpoints).unwrap_or_default()
}
