//! `/api/bus`: sends a message, lists endpoints, follows messages.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::{
    model::{
        EndpointName,
        bus::{BusMessage, Destination},
    },
    ports::{
        Bus, Clock,
        bus::{EndpointState, Presence, PublishError, Receipt},
    },
};
use angelia_wire::sse::SseEncoder;
use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use futures_util::{Stream, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::super::{ApiError, ApiState, body::JsonBody, resources::ResourceList};

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The sender if the request names none.
const DEFAULT_SENDER: &str = "api";

/// The bus of this daemon, for callers over HTTP.
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

fn require_bus(state: &ApiState) -> Result<&BusApi, ApiError> {
    state.bus.as_ref().ok_or_else(|| {
        let message = "this daemon has no bus";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
            .with_hint("`angelia bus status` shows why")
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BusMessage")]
pub(in crate::http) struct BusMessageBody {
    to: String,
    /// The claimed sender; it is not verified, because an HTTP client holds no endpoint's name.
    from: Option<String>,
    /// A second message with the same id is the same message.
    id: Option<String>,
    text: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    channel: Option<String>,
    /// Instead of `text`.
    body: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BusAccepted")]
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
    State(state): State<Arc<ApiState>>,
    JsonBody(body): JsonBody<BusMessageBody>,
) -> Result<(StatusCode, Json<BusAccepted>), ApiError> {
    let door = require_bus(&state)?;
    let message = compose_message(door, body)?;
    // It is fine if nobody follows the messages.
    let _nobody = door.incoming.send(message.clone());
    let receipts = door.bus.publish(vec![message], None).await.await;
    match receipts.into_iter().next() {
        Some(Ok(receipt)) => Ok((StatusCode::ACCEPTED, Json(receipt.into()))),
        Some(Err(refusal)) => Err(refusal_error(&refusal)),
        None => Err(ApiError::internal("the bus did not answer")),
    }
}

fn compose_message(door: &BusApi, body: BusMessageBody) -> Result<BusMessage, ApiError> {
    let name = |field: &str, name: &str| {
        EndpointName::new(name).map_err(|error| ApiError::invalid(format!("{field}: {error}")))
    };
    let to = name("to", &body.to)?;
    let from = name("from", body.from.as_deref().unwrap_or(DEFAULT_SENDER))?;
    let mut said = match (body.body, body.text) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("text: a message has a text or a body, not both"));
        }
        (Some(body), None) => body,
        (None, Some(text)) => json!({"text": text}),
        (None, None) => return Err(ApiError::invalid("text: there is nothing to send")),
    };
    for (field, value) in [("type", body.kind), ("channel", body.channel)] {
        let Some(value) = value else { continue };
        let Value::Object(fields) = &mut said else {
            let message = format!("{field}: this needs a body that is an object");
            return Err(ApiError::invalid(message));
        };
        fields.insert(field.to_owned(), value.into());
    }
    let said = to_raw_value(&said).map_err(|error| ApiError::internal(error.to_string()))?;
    let id = body.id.filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| door.clock.fresh_uuid().to_string());
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this century fit into 53 bits")]
    let ts = door.clock.now().as_microsecond() as f64 / 1e6;
    let message = BusMessage::compose(id, &from, &to, ts, &said);
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

fn refusal_error(refusal: &PublishError) -> ApiError {
    let (status, kind) = match refusal {
        PublishError::Full { .. } => (StatusCode::TOO_MANY_REQUESTS, "busy"),
        PublishError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        PublishError::Storage(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    ApiError::new(status, kind, refusal.to_string())
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BusEndpoint")]
pub(in crate::http) struct BusEndpoint {
    /// Its name.
    id: String,
    listening: bool,
    session_id: Option<String>,
    queued: usize,
}

pub(super) async fn endpoints(
    State(state): State<Arc<ApiState>>,
) -> Result<Json<ResourceList<BusEndpoint>>, ApiError> {
    let listed = require_bus(&state)?.bus.endpoints();
    Ok(Json(ResourceList::whole(listed.into_iter().map(Into::into).collect())))
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

/// Streams messages as they come in. Earlier messages are with their receivers.
pub(super) async fn events(State(state): State<Arc<ApiState>>) -> Result<Response, ApiError> {
    const HEADERS: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let heard = require_bus(&state)?.incoming.subscribe();
    let stop = state.tasks.stop_token().clone();
    Ok((HEADERS, Body::from_stream(message_stream(heard, stop))).into_response())
}

fn message_stream(
    heard: broadcast::Receiver<BusMessage>,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    stream::unfold((heard, stop), |(mut heard, stop)| async move {
        let next =
            stop.run_until_cancelled(tokio::time::timeout(KEEP_ALIVE_INTERVAL, heard.recv()));
        let mut out = BytesMut::new();
        match next.await? {
            Ok(Ok(message)) => encode_message(&message, &mut out),
            Ok(Err(RecvError::Lagged(missed))) => {
                let said = json!({"missed": missed}).to_string();
                SseEncoder::new(&mut out).event("lagged").data(said.as_bytes()).end();
            }
            Ok(Err(RecvError::Closed)) => return None,
            Err(_nothing_new) => SseEncoder::new(&mut out).comment("keep-alive").end(),
        }
        Some((Ok(out.freeze()), (heard, stop)))
    })
}

fn encode_message(message: &BusMessage, out: &mut BytesMut) {
    let content = message.content();
    let to = match &message.to {
        Destination::Endpoint(name) => Some(name.as_str()),
        Destination::Everyone => None,
    };
    let said = json!({
        "id": &*message.id,
        "from": message.from,
        "verified": message.verified,
        "to": to,
        "ts": content.ts,
        "body": content.body,
    });
    SseEncoder::new(out).event("message").data(said.to_string().as_bytes()).end();
}
