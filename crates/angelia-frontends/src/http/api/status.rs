//! `/api/status`, `/api/agents`, `/api/channels` and `/api/quotas`: what is going on.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::UsageQuery,
    ports::{ApprovalFilter, Page, TurnFilter},
};
use axum::{Json, extract::State};
use jiff::{Timestamp, Zoned};

use super::{
    super::{
        AgentProcess, ApiState, HttpError,
        resources::{
            AgentResource, BusStatusResource, ChannelResource, DaemonResource, QuotaResource,
            ResourceList, StatusResource, UsageResource,
        },
        state::SharedState,
    },
    approvals::approval_resources,
    resource_reads,
    schedules::describe_all,
};

/// The limit on turns and approvals in the status.
const MAX_LISTED: usize = 200;

/// What the daemon knows about itself.
#[derive(Clone, Debug)]
pub struct DaemonInfo {
    pub started_at: Timestamp,
    pub address: String,
}

/// Returns the last midnight in the local time zone.
pub fn today_begins() -> Option<Timestamp> {
    Zoned::now().start_of_day().ok().map(|midnight| midnight.timestamp())
}

pub(super) async fn status(State(state): SharedState) -> Result<Json<StatusResource>, HttpError> {
    let engine = &state.engine;
    let today = UsageQuery { from: today_begins(), ..UsageQuery::default() };
    let (agents, turns, approvals, quotas, used, schedules) = tokio::join!(
        list_agents(&state),
        engine.find_turns(TurnFilter::unfinished(), Page::first(MAX_LISTED)),
        engine.approvals(ApprovalFilter::Pending, Page::first(MAX_LISTED)),
        engine.quotas(),
        engine.usage(today),
        engine.schedules(),
    );
    let schedules = describe_all(engine, &schedules?).await?;
    Ok(Json(StatusResource {
        daemon: daemon(&state),
        agents,
        max_agents: Some(engine.limits().max_live_agents),
        turns: turns?.iter().map(|turn| resource_reads::turn(engine, turn)).collect(),
        approvals: approval_resources(engine, &approvals?).await?,
        schedules: StatusResource::waiting_schedules(schedules),
        bus: bus(&state),
        channels: channels(&state).await,
        quotas: quotas?.iter().map(Into::into).collect(),
        usage_today: used?.first().map(UsageResource::from).unwrap_or_default(),
    }))
}

fn daemon(state: &ApiState) -> DaemonResource {
    let info = &state.daemon;
    let uptime = Timestamp::now().duration_since(info.started_at);
    DaemonResource {
        running: true,
        pid: Some(std::process::id()),
        version: Some(state.version.to_string()),
        uptime_seconds: Some(u64::try_from(uptime.as_secs()).unwrap_or_default()),
        address: Some(info.address.clone()),
        config: Some(state.config.state()),
    }
}

fn bus(state: &ApiState) -> Option<BusStatusResource> {
    let endpoints = state.bus.as_ref()?.bus.endpoints();
    Some(BusStatusResource {
        endpoints: endpoints.len(),
        listening: endpoints.iter().filter(|one| one.session.is_some()).count(),
        queued: endpoints.iter().map(|one| one.queued).sum(),
        dead: state.bus.as_ref()?.bus.counts().dead,
    })
}

/// Returns the channels with their open pairing codes.
pub(super) async fn channels_with_codes(
    state: &ApiState,
) -> Result<Vec<ChannelResource>, HttpError> {
    let mut all = channels(state).await;
    let codes = match &state.chats {
        Some(chats) => chats.open_codes().await.map_err(EngineError::from)?,
        None => Vec::new(),
    };
    for channel in &mut all {
        let own = codes.iter().filter(|code| *code.platform == *channel.id);
        channel.codes = own.map(Into::into).collect();
    }
    Ok(all)
}

pub(super) async fn list_channels(
    State(state): SharedState,
) -> Result<Json<ResourceList<ChannelResource>>, HttpError> {
    Ok(Json(ResourceList::whole(channels_with_codes(&state).await?)))
}

async fn channels(state: &ApiState) -> Vec<ChannelResource> {
    match &state.chats {
        Some(chats) => chats.status().await.iter().map(Into::into).collect(),
        None => Vec::new(),
    }
}

pub(super) async fn agents(State(state): SharedState) -> Json<ResourceList<AgentResource>> {
    Json(ResourceList::whole(list_agents(&state).await))
}

pub(super) async fn list_agents(state: &ApiState) -> Vec<AgentResource> {
    let table = Arc::clone(&state.agent_processes);
    // Reading the process table means reading files.
    let processes = tokio::task::spawn_blocking(move || table.list()).await.unwrap_or_default();
    let live = state.engine.live_agents();
    let of_session = |process: &&AgentProcess, session| process.session == Some(session);
    let mut agents: Vec<_> = live
        .iter()
        .map(|agent| {
            let process = processes.iter().find(|one| of_session(one, agent.session));
            AgentResource::of_session(agent, process)
        })
        .collect();
    let is_spare =
        |process: &&AgentProcess| !live.iter().any(|agent| process.session == Some(agent.session));
    agents.extend(processes.iter().filter(is_spare).map(AgentResource::spare));
    agents
}

pub(super) async fn quotas(
    State(state): SharedState,
) -> Result<Json<ResourceList<QuotaResource>>, HttpError> {
    let quotas =
        state.engine.quotas().await.map_err(|error: EngineError| HttpError::from(error))?;
    Ok(Json(ResourceList::whole(quotas.iter().map(Into::into).collect())))
}
