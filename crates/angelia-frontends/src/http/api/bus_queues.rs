//! `/api/bus/messages` and `/api/bus/dead`: the messages that wait, and those that will never be
//! delivered.

use angelia_core::{
    model::{
        EndpointName,
        bus::{BusMessage, Destination},
    },
    ports::bus::{BusError, BusPosition, DeadLetter, QueuedMessage},
};
use axum::{Json, extract::State, http::StatusCode};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::{As, DisplayFromStr};

use super::{
    super::{ErrorKind, HttpError, body::QueryParams, resources::ResourceList, state::SharedState},
    PathId,
    bus::{BusAccepted, require_bus},
};
use crate::event_json::time::Rfc3339;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct QueueParams {
    /// The endpoint whose messages are listed.
    endpoint: String,
    /// At most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct DeadParams {
    /// The `next` of an earlier page.
    #[schemars(extend("pattern" = "^[0-9]{1,18}$"))]
    cursor: Option<String>,
    /// The size of the page; at most 500.
    #[schemars(extend("maximum" = u32::MAX))]
    limit: Option<u32>,
}

fn limit(wanted: Option<u32>) -> usize {
    let wanted = wanted.and_then(|limit| limit.try_into().ok());
    wanted.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
}

/// A message of the bus as clients see it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QueuedMessage")]
pub(in crate::http) struct MessageResource {
    /// Its place in the order of the whole bus.
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    id: u64,
    message_id: String,
    /// `null`: the sender has given no name.
    from: Option<String>,
    /// The name of the sender was proven.
    verified: bool,
    /// `null`: to everyone.
    to: Option<String>,
    /// What the message says: its text, or its whole body.
    text: Option<String>,
    body: Value,
    /// When it was accepted; of a dead letter, when it was given up.
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    at: Timestamp,
    /// `waiting`, `taken` or `dead`.
    state: &'static str,
    /// Why a dead letter was not delivered.
    reason: Option<String>,
}

impl MessageResource {
    fn new(position: BusPosition, message: &BusMessage, at: Timestamp) -> Self {
        let content = message.content();
        let body = serde_json::to_value(&content.body).unwrap_or_default();
        Self {
            id: position.0,
            message_id: message.id.to_string(),
            from: message.from.as_deref().map(str::to_owned),
            verified: message.verified,
            to: match &message.to {
                Destination::Endpoint(name) => Some(name.to_string()),
                Destination::Everyone => None,
            },
            text: body.get("text").and_then(Value::as_str).map(str::to_owned),
            body,
            at,
            state: "waiting",
            reason: None,
        }
    }
}

impl From<&QueuedMessage> for MessageResource {
    fn from(queued: &QueuedMessage) -> Self {
        Self {
            state: if queued.is_taken { "taken" } else { "waiting" },
            ..Self::new(queued.position, &queued.message, queued.accepted_at)
        }
    }
}

impl From<&DeadLetter> for MessageResource {
    fn from(dead: &DeadLetter) -> Self {
        Self {
            to: Some(dead.to.to_string()),
            state: "dead",
            reason: Some(dead.reason.clone()),
            ..Self::new(dead.position, &dead.message, dead.at)
        }
    }
}

pub(super) async fn queued(
    State(state): SharedState,
    QueryParams(params): QueryParams<QueueParams>,
) -> Result<Json<ResourceList<MessageResource>>, HttpError> {
    let bus = &require_bus(&state)?.bus;
    let name = EndpointName::new(&params.endpoint)
        .map_err(|error| HttpError::invalid(format!("endpoint: {error}")))?;
    let found = bus.peek(&name, limit(params.limit)).await.map_err(|error| bus_error(&error))?;
    Ok(Json(ResourceList::whole(found.iter().map(Into::into).collect())))
}

pub(super) async fn dead(
    State(state): SharedState,
    QueryParams(params): QueryParams<DeadParams>,
) -> Result<Json<ResourceList<MessageResource>>, HttpError> {
    let bus = &require_bus(&state)?.bus;
    let before = params.cursor.as_deref().map(str::parse).transpose();
    let before = before
        .map_err(|_| HttpError::invalid("cursor: this is not the `next` of an earlier page"))?;
    let limit = limit(params.limit);
    // One extra row tells whether there is a next page.
    let found = bus.dead_letters(before.map(BusPosition), limit + 1).await;
    let found = found.map_err(|error| bus_error(&error))?;
    let shown = &found[..found.len().min(limit)];
    let next = shown.last().filter(|_| found.len() > limit);
    Ok(Json(ResourceList {
        next: next.map(|dead| dead.position.0.to_string()),
        data: shown.iter().map(Into::into).collect(),
    }))
}

pub(super) async fn resend(
    State(state): SharedState,
    PathId(position): PathId<u64>,
) -> Result<(StatusCode, Json<BusAccepted>), HttpError> {
    let bus = &require_bus(&state)?.bus;
    let receipt = bus.resend(BusPosition(position)).await.map_err(|error| bus_error(&error))?;
    Ok((StatusCode::ACCEPTED, Json(receipt.into())))
}

pub(super) async fn discard(
    State(state): SharedState,
    PathId(position): PathId<u64>,
) -> Result<StatusCode, HttpError> {
    let bus = &require_bus(&state)?.bus;
    bus.discard(BusPosition(position)).await.map_err(|error| bus_error(&error))?;
    Ok(StatusCode::NO_CONTENT)
}

fn bus_error(error: &BusError) -> HttpError {
    let message = error.to_string();
    match error {
        BusError::NotFound => HttpError::new(ErrorKind::NotFound, message)
            .with_hint("`angelia bus dead list` lists them"),
        BusError::Full(_) => HttpError::new(ErrorKind::Busy, message),
        BusError::Closed => HttpError::new(ErrorKind::Stopping, message),
        BusError::Failed { .. } => HttpError::internal(message),
    }
}
