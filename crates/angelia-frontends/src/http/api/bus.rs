//! `/api/bus`: sends a message, lists endpoints, follows messages.

use std::{fmt, sync::Arc};

use angelia_core::{
    model::{
        EndpointName, FailureKind,
        bus::{BusMessage, Destination},
    },
    ports::{
        Bus, Clock,
        bus::{EndpointState, Presence, PublishError, Receipt},
    },
};
use angelia_wire::sse::SseEncoder;
use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use futures_util::{Stream, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::super::{
    ApiState, ErrorKind, HttpError, body::JsonBody, reach::AgentCaller, resources::ResourceList,
    sse, state::SharedState,
};

/// The sender if the request does not name one.
const DEFAULT_SENDER: &str = "api";

/// This daemon's bus, for callers over HTTP.
#[derive(Clone)]
pub struct BusApi {
    pub bus: Arc<dyn Bus>,
    /// Broadcasts every incoming message.
    pub incoming: broadcast::Sender<BusMessage>,
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for BusApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusApi").finish_non_exhaustive()
    }
}

pub(super) fn require_bus(state: &ApiState) -> Result<&BusApi, HttpError> {
    state.bus.as_ref().ok_or_else(|| {
        let kind = ErrorKind::Failed(FailureKind::Unavailable);
        HttpError::new(kind, "this daemon has no bus").with_hint("`angelia bus status` shows why")
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BusMessage")]
pub(in crate::http) struct BusMessageBody {
    to: String,
    /// The claimed sender; it is not verified, because an HTTP client holds no endpoint's name.
    from: Option<String>,
    /// A second message with the same id and the same body is the same message; with another body
    /// it is refused.
    id: Option<String>,
    text: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    channel: Option<String>,
    /// Instead of `text`.
    body: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct BusAccepted {
    id: String,
    status: &'static str,
    /// No listener has that name now.
    queued: bool,
    /// A listener has had that name before.
    seen: bool,
    repeated: bool,
}

pub(super) async fn send(
    State(state): SharedState,
    agent: Option<Extension<AgentCaller>>,
    JsonBody(body): JsonBody<BusMessageBody>,
) -> Result<(StatusCode, Json<BusAccepted>), HttpError> {
    let bus = require_bus(&state)?;
    let mut message = compose_message(bus, body)?;
    if let Some(session) = agent.and_then(|Extension(agent)| agent.outermost_session()) {
        message = message.with_sender_session(session);
    }
    // It does not matter whether anybody follows the messages.
    let _nobody = bus.incoming.send(message.clone());
    let receipts = bus.bus.publish(vec![message], None).await.await;
    match receipts.into_iter().next() {
        Some(Ok(receipt)) => Ok((StatusCode::ACCEPTED, Json(receipt.into()))),
        Some(Err(refusal)) => Err(refusal_error(&refusal)),
        None => Err(HttpError::internal("the bus did not answer")),
    }
}

fn compose_message(bus: &BusApi, body: BusMessageBody) -> Result<BusMessage, HttpError> {
    let name = |field: &str, name: &str| {
        EndpointName::new(name).map_err(|error| HttpError::invalid(format!("{field}: {error}")))
    };
    let to = name("to", &body.to)?;
    let from = name("from", body.from.as_deref().unwrap_or(DEFAULT_SENDER))?;
    let mut content = match (body.body, body.text) {
        (Some(_), Some(_)) => {
            return Err(HttpError::invalid("text: a message has a text or a body, not both"));
        }
        (Some(body), None) => body,
        (None, Some(text)) => json!({"text": text}),
        (None, None) => return Err(HttpError::invalid("text: there is nothing to send")),
    };
    for (field, value) in [("type", body.kind), ("channel", body.channel)] {
        let Some(value) = value else { continue };
        let Value::Object(fields) = &mut content else {
            let message = format!("{field}: this needs a body that is an object");
            return Err(HttpError::invalid(message));
        };
        fields.insert(field.to_owned(), value.into());
    }
    let content = to_raw_value(&content).map_err(|error| HttpError::internal(error.to_string()))?;
    let id = body.id.filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| bus.clock.fresh_uuid().to_string());
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this century fit into 53 bits")]
    let ts = bus.clock.now().as_microsecond() as f64 / 1e6;
    let message = BusMessage::compose(id, &from, &to, ts, &content);
    Ok(BusMessage { verified: false, ..message })
}

impl From<Receipt> for BusAccepted {
    fn from(receipt: Receipt) -> Self {
        Self {
            id: receipt.id.to_string(),
            status: "accepted",
            queued: receipt.presence != Presence::Listening,
            seen: receipt.presence != Presence::NeverSeen,
            repeated: receipt.repeated,
        }
    }
}

fn refusal_error(refusal: &PublishError) -> HttpError {
    let message = refusal.to_string();
    match refusal {
        PublishError::Full { .. } | PublishError::BusFull { .. } => {
            HttpError::new(ErrorKind::Busy, message).with_code("busy")
        }
        PublishError::IdReused { .. } => HttpError::new(ErrorKind::Conflict, message),
        PublishError::TooLarge { .. } => HttpError::new(ErrorKind::TooLarge, message),
        PublishError::Storage(_) => {
            HttpError::new(ErrorKind::Failed(FailureKind::Unavailable), message)
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct BusEndpoint {
    /// Its name.
    pub(in crate::http) id: String,
    listening: bool,
    session_id: Option<String>,
    queued: usize,
}

pub(super) async fn endpoints(
    State(state): SharedState,
) -> Result<Json<ResourceList<BusEndpoint>>, HttpError> {
    Ok(Json(ResourceList::whole(list_endpoints(require_bus(&state)?))))
}

pub(super) fn list_endpoints(api: &BusApi) -> Vec<BusEndpoint> {
    api.bus.endpoints().into_iter().map(Into::into).collect()
}

impl From<EndpointState> for BusEndpoint {
    fn from(state: EndpointState) -> Self {
        Self {
            id: state.name.to_string(),
            listening: state.session.is_some(),
            session_id: state.session.map(|session| session.to_string()),
            queued: state.queued,
        }
    }
}

/// Streams messages as they arrive. Earlier messages are with their receivers.
pub(super) async fn events(State(state): SharedState) -> Result<Response, HttpError> {
    let messages = require_bus(&state)?.incoming.subscribe();
    let stop = state.tasks.stop_token().clone();
    Ok((sse::HEADERS, Body::from_stream(message_stream(messages, stop))).into_response())
}

fn message_stream(
    messages: broadcast::Receiver<BusMessage>,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    stream::unfold((messages, stop), |(mut messages, stop)| async move {
        let next = stop
            .run_until_cancelled(tokio::time::timeout(sse::KEEP_ALIVE_INTERVAL, messages.recv()));
        let mut out = BytesMut::new();
        match next.await? {
            Ok(Ok(message)) => encode_message(&message, &mut out),
            Ok(Err(RecvError::Lagged(missed))) => {
                let data = json!({"missed": missed}).to_string();
                SseEncoder::new(&mut out).event("lagged").data(data.as_bytes()).end();
            }
            Ok(Err(RecvError::Closed)) => return None,
            Err(_nothing_new) => SseEncoder::new(&mut out).comment("keep-alive").end(),
        }
        Some((Ok(out.freeze()), (messages, stop)))
    })
}

fn encode_message(message: &BusMessage, out: &mut BytesMut) {
    let content = message.content();
    let to = match &message.to {
        Destination::Endpoint(name) => Some(name.as_str()),
        Destination::Everyone => None,
    };
    let data = json!({
        "id": &*message.id,
        "from": message.from,
        "verified": message.verified,
        "to": to,
        "ts": content.ts,
        "body": content.body,
    });
    SseEncoder::new(out).event("message").data(data.to_string().as_bytes()).end();
}
