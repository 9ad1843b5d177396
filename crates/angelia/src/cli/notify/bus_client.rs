//! Sends one message over the bus's socket and reads the replies. A sender is never registered as
//! an endpoint.
//!
//! The message is sent between two pings. The first ping requests `accepted` and the other reports,
//! and its answer tells whether this bus sends them. A bus that does not, such as hermes-bus,
//! answers frames in order: if no error precedes the answer to the second ping, the message is on
//! its way.

use std::{io, path::PathBuf, time::Duration};

use angelia_core::ports::{CommandProgram, CommandRunner as _, CommandSpec};
use angelia_frontends::bus::MAX_FRAME_BYTES;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::programs;
use crate::{
    bus::{client::BusClient, sockets::BusSockets},
    cli::error::{CommandError, Exit},
    config::Environment,
};

/// How long to wait for `accepted`, or for the answer to a ping.
const ACCEPTED_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a bus may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How long to wait for `delivered` after `accepted`. A listening receiver takes the message at
/// once, unless it is busy.
const DELIVERED_TIMEOUT: Duration = Duration::from_millis(30);

/// Number of attempts if the connection breaks, and the delay between them. A bus that passes from
/// one process to another closes its connections once.
const MAX_ATTEMPTS: usize = 5;
const RETRY_DELAY: Duration = Duration::from_millis(100);

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
    /// Proves the sender's name. The bus does not pass it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

impl<'a> NotifyMessage<'a> {
    pub(crate) fn new(to: &'a str, from: &'a str, body: Value) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of this century fit into 53 bits"
        )]
        let ts = Timestamp::now().as_microsecond() as f64 / 1e6;
        Self { kind: "message", to, from, id: Uuid::new_v4().to_string(), ts, body, token: None }
    }
}

/// The delivery state of a message, as far as the bus reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryStatus {
    Delivered,
    Queued,
    /// Queued for an endpoint name that has never been registered.
    UnknownEndpoint,
    /// The bus sends no replies on success, like old versions.
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
    /// In `pong`: whether the bus sends reports to this client.
    ack: bool,
}

/// The bus that a message is sent to.
#[derive(Debug)]
pub(crate) enum BusTarget {
    /// The bus of this home, started if it is not running.
    StartIfAbsent(BusSockets),
    /// The bus of this home, if it is running.
    Running(BusSockets),
    /// A socket named by the caller.
    Socket(PathBuf),
}

impl BusTarget {
    async fn connect(&self, environment: &Environment) -> Result<BusClient, CommandError> {
        let (sockets, may_start) = match self {
            Self::Socket(socket) => {
                return BusClient::connect(socket).await.map_err(|error| {
                    let socket = socket.display();
                    let what = format!("the bus cannot be reached at {socket}: {error}");
                    CommandError::new(Exit::Failed, what)
                });
            }
            Self::StartIfAbsent(sockets) => (sockets, true),
            Self::Running(sockets) => (sockets, false),
        };
        let mut attempts = MAX_ATTEMPTS;
        loop {
            match sockets.connect().await {
                Ok(bus) => return Ok(bus),
                // A bus that was just started may have exited again, together with its daemon.
                Err(error) if is_absent(&error) && may_start && attempts > 0 => {
                    attempts -= 1;
                    start_bus(environment).await?;
                }
                Err(error) => return Err(sockets.unreachable_error(Exit::Failed, &error)),
            }
        }
    }
}

/// Sends a message. If the connection breaks before the bus has answered, sends it again; the bus
/// recognises a repetition by its id.
pub(crate) async fn send(
    environment: &Environment,
    target: &BusTarget,
    message: &NotifyMessage<'_>,
) -> Result<DeliveryStatus, CommandError> {
    let json = serde_json::to_vec(message).map_err(CommandError::internal)?;
    if json.len() > MAX_FRAME_BYTES {
        let what = format!("the message is larger than the bus accepts ({MAX_FRAME_BYTES} bytes)");
        return Err(CommandError::new(Exit::Failed, what));
    }
    let mut attempts = MAX_ATTEMPTS;
    loop {
        let mut bus = target.connect(environment).await?;
        attempts -= 1;
        match send_once(&mut bus, &json).await {
            Ok(status) => return Ok(status),
            Err(SendError::Rejected(why)) => {
                let what = format!("the bus rejected the message: {why}");
                return Err(CommandError::new(Exit::Failed, what));
            }
            Err(SendError::Cut(error)) if attempts == 0 => {
                let what = format!("the bus closed the connection: {error}");
                return Err(CommandError::new(Exit::Failed, what));
            }
            Err(SendError::Cut(_)) => sleep(RETRY_DELAY).await,
        }
    }
}

enum SendError {
    Rejected(String),
    /// The connection broke before the bus answered.
    Cut(io::Error),
}

async fn send_once(bus: &mut BusClient, json: &[u8]) -> Result<DeliveryStatus, SendError> {
    let ping = json!({"type": "ping", "ack": true}).to_string();
    let frames = [ping.as_bytes(), json, PING.as_bytes()];
    bus.send_all(&frames).await.map_err(SendError::Cut)?;
    let mut reports = None;
    let mut accepted = None;
    loop {
        // After `accepted` the message is safe, so only a short wait for `delivered` follows.
        let wait = if accepted.is_some() { DELIVERED_TIMEOUT } else { ACCEPTED_TIMEOUT };
        let frame = match (timeout(wait, bus.receive()).await, accepted) {
            (Ok(Ok(frame)), _) => frame,
            // If the bus ends after it has accepted the message, it keeps the message.
            (Ok(Err(_)) | Err(_), Some(accepted)) => return Ok(accepted),
            (Ok(Err(error)), None) => return Err(SendError::Cut(error)),
            (Err(_silence), None) => return Ok(DeliveryStatus::Unconfirmed),
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
                return Err(SendError::Rejected(why));
            }
            // A kind of reply from a later version of the bus.
            _ => {}
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Starts the bus with `angelia bus start`, and passes on that command's error.
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
