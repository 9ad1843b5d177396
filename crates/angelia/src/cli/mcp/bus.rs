//! The bus tools. They use the bus's own socket, whichever process runs the bus.

use std::{io, time::Duration};

use angelia_core::model::EndpointName;
use angelia_frontends::{
    bus_rules::{LiveRules, rules_paths},
    mcp::{ToolCallError, arguments::BusSendArgs},
};
use serde_json::{Map, Value, json};

use super::backend::HomeToolBackend;
use crate::{
    bus::sockets::BusSockets,
    cli::notify::bus_client::{self, BusTarget, DeliveryStatus},
    hosting,
};

/// How long the bus may take to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of endpoints in a status. A longer list would not help a model.
const MAX_LISTED_ENDPOINTS: usize = 200;

/// The sender's name if none is given.
const DEFAULT_SENDER: &str = "angelia-mcp";

pub(super) async fn send(
    backend: &HomeToolBackend,
    message: BusSendArgs,
) -> Result<String, ToolCallError> {
    EndpointName::check(&message.target)
        .map_err(|error| ToolCallError::new(format!("target: {error}")))?;
    if message.kind.is_empty() {
        return Err(ToolCallError::new("type: a message needs one; rules match on it"));
    }
    let mut body = Map::new();
    body.insert("text".to_owned(), message.text.into());
    body.insert("type".to_owned(), message.kind.into());
    if let Some(channel) = message.channel {
        body.insert("channel".to_owned(), channel.into());
    }
    let from = sender_name(backend);
    let sent = bus_client::NotifyMessage::new(&message.target, &from, Value::Object(body));
    // An agent must not start a daemon on the owner's behalf.
    let target = BusTarget::Running(BusSockets::of_app(&backend.app));
    let status = bus_client::send(&backend.app.environment, &target, &sent).await?;
    let target = &message.target;
    Ok(match status {
        DeliveryStatus::Delivered => format!("delivered to {target}"),
        DeliveryStatus::Queued => format!("queued for {target}: nobody listens there now"),
        DeliveryStatus::UnknownEndpoint => {
            format!("queued for {target}: nobody has ever listened there")
        }
        DeliveryStatus::Unconfirmed => {
            format!("sent to {target} (this bus does not report what became of it)")
        }
    })
}

/// Returns the name under which messages are sent.
fn sender_name(backend: &HomeToolBackend) -> String {
    let environment = &backend.app.environment;
    let paths = rules_paths(backend.app.home.dir().to_owned(), environment.hermes_home());
    let name = hosting::endpoint_name(
        environment,
        backend.app.config.named_endpoint(),
        &LiveRules::new(paths),
        false,
    );
    name.map_or_else(|| DEFAULT_SENDER.to_owned(), |name| name.to_string())
}

async fn request_status(backend: &HomeToolBackend) -> io::Result<Value> {
    let mut bus = BusSockets::of_app(&backend.app).connect().await?;
    bus.request(&json!({"type": "status"}), REPLY_TIMEOUT).await
}

/// Reports the state of the bus. That the bus is not running is an answer, not an error.
pub(super) async fn status(backend: &HomeToolBackend) -> Result<String, ToolCallError> {
    let mut status = match request_status(backend).await {
        Ok(status) => status,
        Err(error) => {
            let absent = json!({
                "running": false,
                "reason": error.to_string(),
                "hint": "the owner starts it with `angelia bus start` or `angelia serve`",
            });
            return Ok(absent.to_string());
        }
    };
    if let Some(status) = status.as_object_mut() {
        status.remove("type");
        status.insert("running".to_owned(), true.into());
        if let Some(Value::Array(endpoints)) = status.get_mut("endpoints")
            && endpoints.len() > MAX_LISTED_ENDPOINTS
        {
            let more = endpoints.len() - MAX_LISTED_ENDPOINTS;
            endpoints.truncate(MAX_LISTED_ENDPOINTS);
            status.insert("further_endpoints".to_owned(), more.into());
        }
    }
    Ok(status.to_string())
}

pub(super) async fn info(backend: &HomeToolBackend) -> Result<String, ToolCallError> {
    let session = backend.origin.session(&backend.app).ok().flatten();
    let endpoint = backend.app.environment.non_empty(hosting::ENDPOINT_VARIABLE);
    let endpoint = endpoint.and_then(|name| name.to_str());
    let status = request_status(backend).await.ok();
    let listening = status.as_ref().map(|status| {
        let known = status["endpoints"].as_array().into_iter().flatten();
        known
            .filter(|one| !one["session_id"].is_null())
            .any(|one| endpoint.is_some() && one["endpoint"].as_str() == endpoint)
    });
    let info = json!({
        "endpoint": endpoint,
        "sends_as": sender_name(backend),
        "session_id": session.map(|id| id.to_string()),
        "profile": backend.profile,
        "bus_running": status.is_some(),
        "endpoint_listening": listening,
    });
    Ok(info.to_string())
}
