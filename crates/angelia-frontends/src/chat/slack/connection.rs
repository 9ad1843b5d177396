//! The sockets of Socket Mode. Slack closes each one after some hours, with a warning. We open the next
//! socket before leaving the old one, because events go to any open socket of the app, and a press is
//! delivered only once.

use std::{convert::Infallible, future::pending, time::Duration};

use angelia_core::ports::{BoxFuture, ConnectionError, ConnectionErrorKind, EventInbox};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{
    adapter::Slack,
    decode::{SlackBot, decode_frame},
    envelope::SocketModeFrame,
    web_api::SERVER,
};
use crate::chat::web_socket::{SocketError, SocketMessage, WebSocket};

/// The interval between our pings.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// The longest time without anything from the server, including pongs.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// The time limit for the server's first frame.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the old socket is read after the new one is open.
const OLD_SOCKET_TIME: Duration = Duration::from_secs(5);

/// The shortest time between two connections.
const MIN_SOCKET_TIME: Duration = Duration::from_secs(1);

type Opening<'a> = BoxFuture<'a, Result<WebSocket, ConnectionError>>;
type Read = Result<SocketMessage, SocketError>;

enum SocketStep {
    Current(Read),
    Old(Read),
    Opened(Box<Result<WebSocket, ConnectionError>>),
    Tick,
}

/// What a frame means for its socket.
#[derive(PartialEq, Eq)]
enum FrameEffect {
    Stay,
    /// The server will close the socket soon.
    Leave,
}

/// The open sockets.
struct Sockets<'a> {
    slack: &'a Slack,
    current: Option<WebSocket>,
    opened_at: Instant,
    /// The replaced socket, and when to close it.
    old: Option<(WebSocket, Instant)>,
    /// The socket that will replace the current one.
    opening: Option<Opening<'a>>,
}

impl Slack {
    /// Receives events until the connection is lost.
    pub(super) async fn receive_events(
        &self,
        inbox: &dyn EventInbox,
    ) -> Result<Infallible, ConnectionError> {
        let bot = self.identity().await?;
        let mut sockets = Sockets {
            slack: self,
            current: Some(self.open_socket().await?),
            opened_at: Instant::now(),
            old: None,
            opening: None,
        };
        inbox.note_alive();
        let mut ticks = interval(PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = tokio::select! {
                read = read(sockets.current.as_mut()) => SocketStep::Current(read),
                read = read(sockets.old.as_mut().map(|(socket, _)| socket)) => SocketStep::Old(read),
                opened = wait_for(&mut sockets.opening) => SocketStep::Opened(Box::new(opened)),
                _ = ticks.tick() => SocketStep::Tick,
            };
            match step {
                SocketStep::Current(Ok(message)) => {
                    inbox.note_alive();
                    let Some(socket) = &mut sockets.current else { continue };
                    if self.take_frame(socket, &message, &bot, inbox).await? == FrameEffect::Leave {
                        sockets.replace();
                    }
                }
                SocketStep::Current(Err(error)) => {
                    sockets.current = None;
                    if sockets.opening.is_none() {
                        return Err(error.into());
                    }
                }
                SocketStep::Old(Ok(message)) => {
                    let Some((socket, _)) = &mut sockets.old else { continue };
                    self.take_frame(socket, &message, &bot, inbox).await?;
                }
                SocketStep::Old(Err(_closed)) => sockets.old = None,
                SocketStep::Opened(opened) => {
                    sockets.opening = None;
                    sockets.take_new(*opened).await?;
                }
                SocketStep::Tick => {
                    sockets.tick().await?;
                    inbox.note_alive();
                }
            }
        }
    }

    /// Opens a socket and waits until it is ready.
    async fn open_socket(&self) -> Result<WebSocket, ConnectionError> {
        let address = self.api.open_connection().await?;
        let mut socket = WebSocket::connect(SERVER, &address).await?;
        loop {
            let message = socket.next(HELLO_TIMEOUT).await?;
            let Some(frame) = read_frame(&message) else { continue };
            match frame.kind.as_str() {
                "hello" => return Ok(socket),
                "disconnect" => return Err(disconnected(&frame.reason)),
                _ => {}
            }
        }
    }

    /// Stores the event of a frame, then acknowledges it. Acknowledges unreadable frames too, or Slack
    /// would send them again.
    async fn take_frame(
        &self,
        socket: &mut WebSocket,
        message: &SocketMessage,
        bot: &SlackBot,
        inbox: &dyn EventInbox,
    ) -> Result<FrameEffect, ConnectionError> {
        let Some(frame) = read_frame(message) else { return Ok(FrameEffect::Stay) };
        if frame.kind == "disconnect" {
            return match frame.reason.as_str() {
                "link_disabled" => Err(disconnected(&frame.reason)),
                _ => Ok(FrameEffect::Leave),
            };
        }
        if let Some(mut event) = decode_frame(&frame, bot) {
            self.remember_recipient(&event);
            self.add_name(&mut event.sender).await;
            inbox.accept(vec![event], None).await.map_err(|error| {
                let message = format!("the event could not be stored: {error}");
                ConnectionError::new(ConnectionErrorKind::Lost, message)
            })?;
        }
        if let Some(id) = frame.envelope_id {
            let acknowledged = socket.send_text(json!({"envelope_id": id}).to_string()).await;
            if let Err(error) = acknowledged {
                // Slack will deliver the event again, and we will recognise its key.
                tracing::info!("an event of Slack was stored but not acknowledged: {error}");
            }
        }
        Ok(FrameEffect::Stay)
    }
}

impl Sockets<'_> {
    /// Starts opening the next socket.
    fn replace(&mut self) {
        if self.opening.is_none() {
            let (slack, at) = (self.slack, self.opened_at + MIN_SOCKET_TIME);
            self.opening = Some(Box::pin(async move {
                sleep_until(at).await;
                slack.open_socket().await
            }));
        }
    }

    async fn take_new(
        &mut self,
        opened: Result<WebSocket, ConnectionError>,
    ) -> Result<(), ConnectionError> {
        let new = match opened {
            Ok(new) => new,
            Err(error) if self.current.is_none() => return Err(error),
            Err(error) => {
                // The old socket works until the server closes it.
                tracing::info!("the next socket of Slack could not be opened: {error}");
                return Ok(());
            }
        };
        self.opened_at = Instant::now();
        let old = self.current.replace(new).map(|old| (old, Instant::now() + OLD_SOCKET_TIME));
        if let Some((socket, _)) = std::mem::replace(&mut self.old, old) {
            socket.close(1000).await;
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), ConnectionError> {
        if let Some((socket, _)) = self.old.take_if(|(_, until)| *until <= Instant::now()) {
            socket.close(1000).await;
        }
        if let Some(socket) = &mut self.current {
            let sent = socket.ping().await;
            if self.opening.is_none() {
                sent?;
            }
        }
        Ok(())
    }
}

async fn read(socket: Option<&mut WebSocket>) -> Read {
    match socket {
        Some(socket) => socket.next(MAX_SILENCE).await,
        None => pending().await,
    }
}

async fn wait_for(opening: &mut Option<Opening<'_>>) -> Result<WebSocket, ConnectionError> {
    match opening {
        Some(opening) => opening.await,
        None => pending().await,
    }
}

fn read_frame(message: &SocketMessage) -> Option<SocketModeFrame> {
    let SocketMessage::Text(text) = message else { return None };
    let value: Value = serde_json::from_str(text).ok()?;
    SocketModeFrame::deserialize(&value).ok()
}

fn disconnected(reason: &str) -> ConnectionError {
    if reason == "link_disabled" {
        let message = "Socket Mode is off; turn it on on the page of the app, under Socket Mode";
        return ConnectionError::new(ConnectionErrorKind::Refused, message);
    }
    let message = format!("{SERVER} closed the connection: {reason}");
    ConnectionError::new(ConnectionErrorKind::Lost, message)
}
