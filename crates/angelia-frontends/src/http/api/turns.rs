//! `/api/turns`, and the submission of turns to a session.

use std::time::Duration;

use angelia_core::{
    engine::{EngineError, RequestKey, Submission},
    model::{SessionId, TurnId, TurnOptions, TurnOrigin, TurnRecord},
    ports::{RecordKind, TurnFilter},
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        ApiState, ConnectionSource, HttpError,
        body::{JsonBody, QueryParams},
        idempotency::idempotency_key,
        keys::OWNER,
        reach::{self, AgentCaller},
        resources::{AcceptedTurnResource, ResourceList, SteerResource, TurnResource},
        state::SharedState,
    },
    PathId,
    input::TurnInput,
    paging::PageQuery,
    reports::parse_time,
    resource_reads,
};
use crate::mcp::lineage::caller_name;

/// Marks the response to a repeated request, which describes the turn of the first one.
pub const REPEAT_HEADER: &str = "x-angelia-repeat";

/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_WINDOW: Duration = Duration::from_hours(24);

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnBody {
    /// A string, or blocks of text and images.
    #[schemars(schema_with = "super::input::schema")]
    pub input: TurnInput,
    /// `false`: nobody will answer approvals, so they are declined at once.
    pub can_ask: Option<bool>,
    /// `false`: an exhausted quota ends the turn instead of making it wait.
    pub can_park: Option<bool>,
    /// The session whose agent delegates this turn.
    pub delegated_by: Option<String>,
    /// A cost limit for the turn, besides that of its profile.
    pub max_cost_usd: Option<f64>,
    /// The session will hardly go on, so its agent is released soon after the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_off: bool,
}

impl TurnBody {
    pub(crate) fn options(&self, origin: TurnOrigin) -> Result<TurnOptions, EngineError> {
        let delegated_by = self.delegated_by.as_deref().map(str::parse).transpose();
        let delegated_by = delegated_by.map_err(|_| EngineError::NotFound("session"))?;
        Ok(TurnOptions {
            // A client that can submit here can also decide approvals here.
            can_ask: self.can_ask.unwrap_or(true),
            can_park: self.can_park.unwrap_or(true),
            caller: delegated_by.map(caller_name),
            max_cost_usd: self.max_cost_usd.filter(|limit| *limit >= 0.0),
            ..TurnOptions::new(origin)
        })
    }
}

pub(super) async fn submit(
    State(state): SharedState,
    PathId(session): PathId<SessionId>,
    Extension(source): Extension<ConnectionSource>,
    agent: Option<Extension<AgentCaller>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<TurnBody>,
) -> Result<Response, HttpError> {
    let mut options = turn_options(&source, &headers, &body).await?;
    if let Some(Extension(agent)) = &agent {
        delegate(&state, agent, session, &mut options).await?;
    }
    let key = idempotency_key(&headers)?.map(|key| RequestKey {
        caller: match &agent {
            Some(_) => options.caller.clone().unwrap_or_default(),
            None => OWNER.into(),
        },
        key: key.into(),
        input: None,
        window: IDEMPOTENCY_WINDOW,
    });
    let one_off = body.one_off;
    let new = Submission { key, one_off, ..Submission::new(session, body.input.0, options) };
    let submitted = state.engine.submit_with(new).await?;
    let mut accepted = AcceptedTurnResource::new(session, &submitted);
    if submitted.is_repeat {
        // The turn of the first request may have progressed or ended.
        let turn = state.engine.turn(submitted.turn).await?;
        turn.state.as_str().clone_into(&mut accepted.status);
    }
    let repeat = submitted.is_repeat.then_some([(REPEAT_HEADER, "1")]);
    Ok((StatusCode::ACCEPTED, repeat, Json(accepted)).into_response())
}

async fn turn_options(
    source: &ConnectionSource,
    headers: &HeaderMap,
    body: &TurnBody,
) -> Result<TurnOptions, HttpError> {
    let origin =
        if source.is_terminal(headers).await { TurnOrigin::Owner } else { TurnOrigin::Remote };
    Ok(body.options(origin)?)
}

/// Marks an agent's turn as delegated by its session, within that session's limits.
async fn delegate(
    state: &ApiState,
    agent: &AgentCaller,
    to: SessionId,
    options: &mut TurnOptions,
) -> Result<(), HttpError> {
    let (from, limits) = agent.delegate_turn(state, to).await?;
    options.caller = Some(caller_name(from));
    options.charged_to = Some(limits.charged_to);
    options.can_ask &= limits.can_ask;
    let costs = [options.max_cost_usd, limits.max_cost_usd];
    options.max_cost_usd = costs.into_iter().flatten().reduce(f64::min);
    Ok(())
}

pub(super) async fn list(
    State(state): SharedState,
    agent: Option<Extension<AgentCaller>>,
    QueryParams(query): QueryParams<PageQuery>,
) -> Result<Json<ResourceList<TurnResource>>, HttpError> {
    let session = match &query.session {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| HttpError::not_found("session"))?),
    };
    match (&agent, session) {
        (None, _) => {}
        (Some(Extension(agent)), Some(session)) => agent.ensure_reaches(session).await?,
        (Some(_), None) => return Err(reach::owner_only()),
    }
    let filter = TurnFilter {
        session,
        statuses: query.statuses(),
        since: parse_time("since", query.since.as_deref())?,
    };
    let turns = match query.prefix()? {
        Some(_) if agent.is_some() => return Err(reach::owner_only()),
        Some(prefix) => {
            let mut found = Vec::new();
            let limit = query.page()?.limit;
            for id in state.engine.find_ids(RecordKind::Turn, prefix, limit).await? {
                found.push(state.engine.turn(TurnId::from_uuid(id)).await?);
            }
            found
        }
        None if filter.statuses.is_empty() && filter.since.is_none() => {
            state.engine.turns(session, query.page()?).await?
        }
        None => state.engine.find_turns(filter, query.page()?).await?,
    };
    let id = |turn: &TurnRecord| turn.id.to_string();
    let mut list = query.list(&turns, id, |record| resource_reads::turn(&state.engine, record));
    let ids = list.data.iter().map(|turn| turn.id.as_uuid()).collect();
    let short_ids = state.engine.short_ids(RecordKind::Turn, ids).await?;
    for (turn, short_id) in list.data.iter_mut().zip(short_ids) {
        turn.short_id = Some(short_id);
    }
    Ok(Json(list))
}

pub(super) async fn show(
    State(state): SharedState,
    PathId(id): PathId<TurnId>,
) -> Result<Json<TurnResource>, HttpError> {
    Ok(Json(resource_reads::turn(&state.engine, &state.engine.turn(id).await?)))
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InterruptBody {
    /// Kills the agent's process instead of asking it to stop.
    pub kill: bool,
}

pub(super) async fn interrupt(
    State(state): SharedState,
    PathId(id): PathId<TurnId>,
    JsonBody(body): JsonBody<InterruptBody>,
) -> Result<(StatusCode, Json<TurnResource>), HttpError> {
    state.engine.interrupt(id, body.kill).await?;
    // This is the current state; the turn's events report how it ended.
    let turn = state.engine.turn(id).await?;
    Ok((StatusCode::ACCEPTED, Json((&turn).into())))
}

/// Steers a running turn. The body is that of a new turn, because input that cannot be passed on
/// becomes one.
pub(super) async fn steer(
    State(state): SharedState,
    PathId(id): PathId<TurnId>,
    Extension(source): Extension<ConnectionSource>,
    agent: Option<Extension<AgentCaller>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<TurnBody>,
) -> Result<(StatusCode, Json<SteerResource>), HttpError> {
    let mut options = turn_options(&source, &headers, &body).await?;
    if let Some(Extension(agent)) = &agent {
        let session = state.engine.turn(id).await?.session;
        delegate(&state, agent, session, &mut options).await?;
    }
    let steering = state.engine.steer(id, body.input.0, options).await?;
    Ok((StatusCode::ACCEPTED, Json((&steering).into())))
}
