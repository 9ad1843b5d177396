//! The WebSocket: receives frames, stores their events, and sends the frames back as acknowledgements. The
//! acknowledgement of a press contains the answer, so it waits for that without blocking other frames.

use std::{convert::Infallible, sync::Arc, time::Duration};

use angelia_core::ports::{
    BoxFuture, ButtonPress, ConnectionError, ConnectionErrorKind, EventInbox, InboundKind,
    SendError,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at},
};

use super::{
    adapter::Feishu,
    card::toast,
    decode::{BotIdentity, decode_payload},
    frame::{CONTROL, DATA, FeishuFrame},
    open_api::{OpenApiError, SERVER},
    parts::{FramePart, PartJoiner},
};
use crate::chat::web_socket::{SocketError, SocketMessage, WebSocket};

/// How often we ping the socket itself, besides the platform's own pings.
const ALIVE_INTERVAL: Duration = Duration::from_secs(25);
/// A connection that is silent for longer is dead.
const MAX_SILENCE: Duration = Duration::from_secs(80);

/// The ping interval if the platform does not state one, and the shortest that it can ask for.
const DEFAULT_PING_INTERVAL: Duration = Duration::from_mins(2);
const MIN_PING_INTERVAL: Duration = Duration::from_secs(1);

/// How long the acknowledgement of a press waits for the answer. The platform waits three seconds.
const PRESS_PATIENCE: Duration = Duration::from_millis(2300);

/// After a connection that lasted this long, the pause before the next one follows the platform's rule; after
/// shorter ones it grows.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// The platform's parameters for a connection, in seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ClientConfig {
    reconnect_nonce: u64,
    ping_interval: u64,
}

impl ClientConfig {
    fn ping_interval(self) -> Duration {
        match self.ping_interval {
            0 => DEFAULT_PING_INTERVAL,
            seconds => Duration::from_secs(seconds).max(MIN_PING_INTERVAL),
        }
    }
}

/// An open connection and its state.
struct Connection<'a> {
    adapter: &'a Feishu,
    inbox: &'a dyn EventInbox,
    bot: &'a BotIdentity,
    socket: WebSocket,
    service: i32,
    config: ClientConfig,
    parts: PartJoiner,
    /// Acknowledgements that wait for an answer.
    waiting: FuturesUnordered<BoxFuture<'a, Vec<u8>>>,
}

impl Feishu {
    pub(super) async fn run_connection(
        &self,
        inbox: &dyn EventInbox,
    ) -> Result<Infallible, ConnectionError> {
        let bot = self.identity().await?;
        let endpoint = self.api.open_endpoint().await.map_err(refused_endpoint)?;
        let data = &endpoint["data"];
        let address = data["URL"].as_str().unwrap_or_default();
        let config = ClientConfig::deserialize(&data["ClientConfig"]).unwrap_or_default();
        let socket =
            WebSocket::connect(SERVER, address).await.map_err(|error| refused_socket(&error))?;
        inbox.note_alive();
        let mut connection = Connection {
            adapter: self,
            inbox,
            bot,
            socket,
            service: service_of(address),
            config,
            parts: PartJoiner::default(),
            waiting: FuturesUnordered::new(),
        };
        let began = Instant::now();
        let ended = connection.run().await;
        ended.map_err(|mut error| {
            if began.elapsed() > STABLE_AFTER && error.retry_after.is_none() {
                // A random pause, so that not all clients return at the same moment.
                let random = f64::from(self.clock.fresh_uuid().as_bytes()[15]) / 256.0;
                let longest = Duration::from_secs(connection.config.reconnect_nonce);
                error.retry_after = Some(longest.mul_f64(random));
            }
            error
        })
    }

    /// Answers a press in its acknowledgement, or with a message if the acknowledgement has already
    /// been sent.
    pub(super) async fn answer(&self, press: &ButtonPress, text: &str) -> Result<(), SendError> {
        let open = self.open_presses.lock().remove(&press.id);
        if open.is_some_and(|open| open.send(text.to_owned()).is_ok()) {
            return Ok(());
        }
        match &press.message_id {
            Some(card) => self.answer_card(card, &press.id, text).await,
            None => Ok(()),
        }
    }
}

impl Connection<'_> {
    async fn run(&mut self) -> Result<Infallible, ConnectionError> {
        let mut alive = interval(ALIVE_INTERVAL);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        alive.reset();
        // Ping immediately: the answer may contain another interval.
        let mut pinged_at = None;
        loop {
            let ping_at =
                pinged_at.map_or_else(Instant::now, |at| at + self.config.ping_interval());
            tokio::select! {
                message = self.socket.next(MAX_SILENCE) => {
                    let message = message?;
                    self.inbox.note_alive();
                    if let SocketMessage::Binary(bytes) = message
                        && let Some(frame) = FeishuFrame::decode(&bytes)
                    {
                        self.handle(frame).await?;
                    }
                }
                Some(acknowledgement) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.socket.send_binary(acknowledgement).await?;
                }
                () = sleep_until(ping_at) => {
                    self.socket.send_binary(FeishuFrame::ping(self.service).encode()).await?;
                    pinged_at = Some(Instant::now());
                }
                _ = alive.tick() => {
                    self.socket.ping().await?;
                    // A missing answer ends the connection through `MAX_SILENCE`, so here it is
                    // alive.
                    self.inbox.note_alive();
                }
            }
        }
    }

    async fn handle(&mut self, frame: FeishuFrame) -> Result<(), ConnectionError> {
        match (frame.method, frame.header("type")) {
            (CONTROL, Some("pong")) => {
                let payload = frame.payload.as_deref().unwrap_or_default();
                if let Ok(config) = serde_json::from_slice(payload) {
                    self.config = config;
                }
                Ok(())
            }
            (DATA, Some(_)) => self.handle_event(frame).await,
            _ => Ok(()),
        }
    }

    async fn handle_event(&mut self, frame: FeishuFrame) -> Result<(), ConnectionError> {
        let began = Instant::now();
        let part = FramePart {
            message_id: frame.header("message_id").unwrap_or_default(),
            sum: frame.number("sum").unwrap_or(1),
            seq: frame.number("seq").unwrap_or_default(),
            payload: frame.payload.as_deref().unwrap_or_default(),
        };
        let Some(payload) = self.parts.add(part, began) else { return Ok(()) };
        let mut answer = None;
        if let Some(decoded) = decode_payload(&payload, self.bot) {
            let event = self.adapter.complete(decoded).await;
            if let InboundKind::Press(press) = &event.kind {
                let (sender, receiver) = oneshot::channel();
                self.adapter.open_presses.lock().insert(Arc::clone(&press.id), sender);
                answer = Some((Arc::clone(&press.id), receiver));
            }
            self.inbox.accept(vec![event], None).await.map_err(|error| {
                let message = format!("an event could not be stored: {error}");
                ConnectionError::new(ConnectionErrorKind::Lost, message)
            })?;
        }
        let Some((press, answer)) = answer else {
            // Acknowledge unreadable events too, or the server would send them again and again.
            let frame = acknowledge(frame, began, None);
            return Ok(self.socket.send_binary(frame).await?);
        };
        let adapter = self.adapter;
        self.waiting.push(Box::pin(async move {
            let told = timeout_at(began + PRESS_PATIENCE, answer).await;
            adapter.open_presses.lock().remove(&press);
            let told = told.ok().and_then(Result::ok);
            acknowledge(frame, began, told.map(|text| toast(&text)))
        }));
        Ok(())
    }
}

/// Returns the frame as an acknowledgement, with the answer to a press if there is one.
fn acknowledge(mut frame: FeishuFrame, began: Instant, answer: Option<Value>) -> Vec<u8> {
    frame.headers.push(("biz_rt".to_owned(), began.elapsed().as_millis().to_string()));
    let payload = match answer {
        Some(answer) => json!({"code": 200, "data": STANDARD.encode(answer.to_string())}),
        None => json!({"code": 200}),
    };
    frame.payload = Some(payload.to_string().into_bytes());
    frame.encode()
}

/// Converts an error of the endpoint request. Its code tells whether to try again.
fn refused_endpoint(error: OpenApiError) -> ConnectionError {
    match error {
        OpenApiError::Refused(refusal) if !refusal.is_temporary() && !refusal.is_about_app() => {
            let message = format!(
                "{SERVER} refuses a connection: {} ({}); does the app receive events by long connection?",
                refusal.words, refusal.code
            );
            ConnectionError::new(ConnectionErrorKind::Refused, message)
        }
        error => error.into(),
    }
}

fn refused_socket(error: &SocketError) -> ConnectionError {
    let hint = match error {
        SocketError::Refused { .. } => "; an app may have 50 connections at most",
        _ => "",
    };
    ConnectionError::new(ConnectionErrorKind::Lost, format!("{error}{hint}"))
}

/// Returns the service id from the connection's address. Pings must name it.
fn service_of(address: &str) -> i32 {
    let url = address.parse::<Url>().ok();
    let service = url.as_ref().and_then(|url| {
        let (_, value) = url.query_pairs().find(|(name, _)| name == "service_id")?;
        value.parse().ok()
    });
    service.unwrap_or_default()
}
