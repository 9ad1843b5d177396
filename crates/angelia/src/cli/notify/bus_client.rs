//! Sends one message over the bus's socket and reads the replies. A sender is never registered as
//! an endpoint.
//!
//! The message stands between two pings. The first asks for `accepted` and the other reports, and
//! its answer tells whether this bus sends them. A bus that does not, such as hermes-bus, answers
//! frames in order: if no error precedes the answer to the second ping, the message is on its way.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use angelia_core::ports::{CommandProgram, CommandRunner as _, CommandSpec};
use angelia_frontends::bus::MAX_FRAME_BYTES;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::programs;
use crate::{
    bus::client::BusClient,
    cli::error::{CommandError, Exit},
    config::Environment,
};

/// How long to wait for `accepted`, or for the answer to a ping.
const ACCEPTED_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a bus may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How long to wait for `delivered` after `accepted`: a listening receiver takes the message at
/// once, or it is busy.
const DELIVERED_TIMEOUT: Duration = Duration::from_millis(30);

const PING: &str = r#"{"type":"ping"}"#;

#[derive(Debug, Serialize)]
pub(crate) struct NotifyMessage<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    to: &'a str,
    from: &'a str,
    id: String,
    ts: f64,
    body: Value,
}

impl<'a> NotifyMessage<'a> {
    pub(crate) fn new(to: &'a str, from: &'a str, body: Value) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of this century fit into 53 bits"
        )]
        let ts = Timestamp::now().as_microsecond() as f64 / 1e6;
        Self { kind: "message", to, from, id: Uuid::new_v4().to_string(), ts, body }
    }
}

/// The delivery state of a message, as far as the bus reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryStatus {
    Delivered,
    Queued,
    /// Queued for an endpoint name that has never been registered.
    UnknownEndpoint,
    /// The bus sends no replies on success, as old versions do.
    Unconfirmed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BusReply {
    #[serde(rename = "type")]
    kind: String,
    queued: bool,
    seen: Option<bool>,
    reason: Option<String>,
    detail: Option<String>,
    code: Option<String>,
    /// In `pong`: the bus reports to this client.
    ack: bool,
}

pub(super) fn socket_path(
    environment: &Environment,
    named: Option<&Path>,
) -> Result<PathBuf, CommandError> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    environment.hermes_bus_socket().ok_or_else(|| {
        let what = "there is no bus: neither HERMES_BUS_ROOT nor HOME is set";
        CommandError::new(Exit::Unavailable, what)
    })
}

pub(crate) async fn send(
    environment: &Environment,
    socket: &Path,
    named: bool,
    message: &NotifyMessage<'_>,
) -> Result<DeliveryStatus, CommandError> {
    let failed = |what: String| CommandError::new(Exit::Failed, what);
    let mut bus = match BusClient::connect(socket).await {
        Ok(bus) => bus,
        // A bus is started only at the default socket, never at one that the caller named.
        Err(error) if is_absent(&error) && !named => {
            start_bus(environment).await?;
            BusClient::connect(socket)
                .await
                .map_err(|error| unreachable_bus_error(socket, &error))?
        }
        Err(error) => return Err(unreachable_bus_error(socket, &error)),
    };
    let json = serde_json::to_vec(message).map_err(CommandError::internal)?;
    if json.len() > MAX_FRAME_BYTES {
        let what = format!("the message is larger than the bus takes ({MAX_FRAME_BYTES} bytes)");
        return Err(failed(what));
    }
    let cut = |error: io::Error| failed(format!("the bus closed the connection: {error}"));
    let ping = json!({"type": "ping", "ack": true}).to_string();
    bus.send_all(&[ping.as_bytes(), &json, PING.as_bytes()]).await.map_err(cut)?;

    let mut reports = None;
    let mut accepted = None;
    loop {
        // After `accepted` the message is safe, so only a short wait for `delivered` follows.
        let wait = if accepted.is_some() { DELIVERED_TIMEOUT } else { ACCEPTED_TIMEOUT };
        let frame = match timeout(wait, bus.receive()).await {
            Ok(frame) => frame.map_err(cut)?,
            Err(_silence) => return Ok(accepted.unwrap_or(DeliveryStatus::Unconfirmed)),
        };
        let reply: BusReply = serde_json::from_slice(&frame).unwrap_or_default();
        match reply.kind.as_str() {
            "pong" if reports.is_none() => reports = Some(reply.ack),
            "pong" if reports == Some(false) => return Ok(DeliveryStatus::Unconfirmed),
            "delivered" => return Ok(DeliveryStatus::Delivered),
            "accepted" if reply.seen == Some(false) => return Ok(DeliveryStatus::UnknownEndpoint),
            "accepted" if reply.queued => return Ok(DeliveryStatus::Queued),
            "accepted" => accepted = Some(DeliveryStatus::Queued),
            "rejected" | "error" => {
                let why = reply.detail.or(reply.reason).or(reply.code);
                let why = why.unwrap_or_else(|| "it gave no reason".to_owned());
                return Err(failed(format!("the bus rejected the message: {why}")));
            }
            // A reply kind of a later version of the bus.
            _ => {}
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn unreachable_bus_error(socket: &Path, error: &io::Error) -> CommandError {
    let what = format!("the bus cannot be reached at {}: {error}", socket.display());
    CommandError::new(Exit::Failed, what).with_hint("start it with `angelia bus start`")
}

/// Starts the bus with `angelia bus start`, and fails with the error of that command.
pub(crate) async fn start_bus(environment: &Environment) -> Result<(), CommandError> {
    let program = std::env::current_exe().map_err(CommandError::internal)?;
    let start = CommandSpec {
        program: CommandProgram::File(
            program.to_string_lossy().into(),
            vec!["bus".into(), "start".into()],
        ),
        env: Vec::new(),
        input: None,
        timeout: START_TIMEOUT,
    };
    let ran = programs::sender_commands(environment)?.run(start).await;
    let why = match ran {
        Ok(ran) if ran.ok => return Ok(()),
        Ok(ran) => ran.stderr,
        Err(error) => error.to_string(),
    };
    let what = format!("the bus was not running and did not start: {}", why.trim());
    Err(CommandError::new(Exit::Failed, what).with_hint("`angelia bus status` shows more"))
}
