//! `/api/turns`, and the submission of turns to a session.

use std::sync::Arc;

use angelia_core::model::{Origin, SessionId, TurnId, TurnOptions, TurnRecord};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{
        ApiError, ApiState, Caller,
        body::{JsonBody, QueryOf},
        resources::{Accepted, List, Steered, Turn},
    },
    Id,
    input::Input,
    once,
    paging::PageQuery,
};
use crate::mcp::lineage::caller_name;

type Shared = State<Arc<ApiState>>;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct TurnBody {
    /// A string, or blocks of text and images.
    #[schemars(schema_with = "super::input::schema")]
    input: Input,
    /// `false`: nobody will answer approvals, so they are declined at once.
    can_ask: Option<bool>,
    /// `false`: an exhausted quota ends the turn instead of making it wait.
    can_park: Option<bool>,
    /// The session whose agent delegates this turn.
    delegated_by: Option<String>,
    /// A cost limit for the turn, besides that of its profile.
    max_cost_usd: Option<f64>,
}

pub(super) async fn submit(
    State(state): Shared,
    Id(session): Id<SessionId>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<TurnBody>,
) -> Result<Response, ApiError> {
    let key = once::key(&caller, &headers)?;
    let options = options(&caller, &headers, &body).await?;
    let submitted = state.engine.submit_once(session, body.input.0, options, key).await?;
    let mut accepted = Accepted::new(session, &submitted);
    if submitted.repeats {
        // The turn of an earlier request may have progressed or ended.
        let turn = state.engine.turn(submitted.turn).await?;
        turn.state.as_str().clone_into(&mut accepted.status);
    }
    let repeat = submitted.repeats.then_some([(once::REPEAT_HEADER, "1")]);
    Ok((StatusCode::ACCEPTED, repeat, Json(accepted)).into_response())
}

async fn options(
    caller: &Caller,
    headers: &HeaderMap,
    body: &TurnBody,
) -> Result<TurnOptions, ApiError> {
    let origin = if caller.is_terminal(headers).await { Origin::Owner } else { Origin::Remote };
    let delegated_by = body.delegated_by.as_deref().map(str::parse).transpose();
    let delegated_by = delegated_by.map_err(|_| ApiError::not_found("session"))?;
    Ok(TurnOptions {
        // A client that can submit here can also decide approvals here.
        can_ask: body.can_ask.unwrap_or(true),
        can_park: body.can_park.unwrap_or(true),
        caller: delegated_by.map(caller_name),
        max_cost_usd: body.max_cost_usd.filter(|limit| *limit >= 0.0),
        ..TurnOptions::new(origin)
    })
}

pub(super) async fn list(
    State(state): Shared,
    QueryOf(query): QueryOf<PageQuery>,
) -> Result<Json<List<Turn>>, ApiError> {
    let session = match &query.session {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| ApiError::not_found("session"))?),
    };
    let turns = state.engine.turns(session, query.page()?).await?;
    let id = |turn: &TurnRecord| turn.id.to_string();
    Ok(Json(query.list(&turns, id, |record| record.into())))
}

pub(super) async fn show(State(state): Shared, Id(id): Id<TurnId>) -> Result<Json<Turn>, ApiError> {
    Ok(Json((&state.engine.turn(id).await?).into()))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::http) struct InterruptBody {
    /// Kills the agent's process instead of asking it to stop.
    kill: bool,
}

pub(super) async fn interrupt(
    State(state): Shared,
    Id(id): Id<TurnId>,
    JsonBody(body): JsonBody<InterruptBody>,
) -> Result<(StatusCode, Json<Turn>), ApiError> {
    state.engine.interrupt(id, body.kill).await?;
    // The current state; the turn's events report how it ended.
    let turn = state.engine.turn(id).await?;
    Ok((StatusCode::ACCEPTED, Json((&turn).into())))
}

/// Steers a running turn. The body is that of a new turn, because input that cannot be passed on
/// becomes one.
pub(super) async fn steer(
    State(state): Shared,
    Id(id): Id<TurnId>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<TurnBody>,
) -> Result<(StatusCode, Json<Steered>), ApiError> {
    let options = options(&caller, &headers, &body).await?;
    let steering = state.engine.steer(id, body.input.0, options).await?;
    Ok((StatusCode::ACCEPTED, Json((&steering).into())))
}
