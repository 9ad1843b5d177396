//! `/api/turns`, and how a session gets one.

use std::sync::Arc;

use angelia_core::model::{Origin, SessionId, TurnId, TurnOptions, TurnRecord};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde::Deserialize;

use super::{
    super::{
        ApiError, ApiState, Caller,
        body::{JsonBody, QueryOf},
        resources::{Accepted, List, Turn},
    },
    Id,
    input::Input,
    paging::PageQuery,
};

type Shared = State<Arc<ApiState>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnBody {
    input: Input,
    /// `false`: nobody will answer approvals, so they are declined at once.
    can_ask: Option<bool>,
}

pub(super) async fn submit(
    State(state): Shared,
    Id(session): Id<SessionId>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<TurnBody>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let origin = if caller.is_terminal(&headers).await {
        Origin::Owner
    } else {
        Origin::Remote
    };
    let options = TurnOptions {
        origin,
        // Whoever can submit here can also decide here.
        can_ask: body.can_ask.unwrap_or(true),
    };
    let submitted = state.engine.submit(session, body.input.0, options).await?;
    let accepted = Accepted::new(session, &submitted);
    Ok((StatusCode::ACCEPTED, Json(accepted)))
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

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct InterruptBody {
    /// End its process instead of asking it to stop.
    kill: bool,
}

pub(super) async fn interrupt(
    State(state): Shared,
    Id(id): Id<TurnId>,
    JsonBody(body): JsonBody<InterruptBody>,
) -> Result<(StatusCode, Json<Turn>), ApiError> {
    state.engine.interrupt(id, body.kill).await?;
    // As it is now; how it ended is told by its events.
    let turn = state.engine.turn(id).await?;
    Ok((StatusCode::ACCEPTED, Json((&turn).into())))
}
