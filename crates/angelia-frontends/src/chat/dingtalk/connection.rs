//! The socket that events arrive on. It is closed only after its successor is open, because the platform does
//! not repeat messages that it could not deliver in between.

use std::{convert::Infallible, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, EventInbox, StoreError};
use reqwest::Url;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{
    adapter::DingTalk,
    decode::decode_frame,
    frame::{CARD_TOPIC, MESSAGE_TOPIC, StreamFrame},
    open_api::SERVER,
};
use crate::chat::web_socket::{SocketMessage, WebSocket};

/// The interval between our pings.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// A socket without any traffic, not even answers to our pings, for this long is dead.
const MAX_SILENCE: Duration = Duration::from_secs(50);

/// The server may have forgotten a socket that answers pings but delivers no frame for this long.
const MAX_QUIET: Duration = Duration::from_mins(1);

const NORMAL_CLOSURE: u16 = 1000;

impl DingTalk {
    /// Receives events until the connection is lost.
    pub(super) async fn stream_events(
        &self,
        inbox: &dyn EventInbox,
    ) -> Result<Infallible, ConnectionError> {
        let mut socket = self.dial().await?;
        loop {
            inbox.note_alive();
            self.read_socket(&mut socket, inbox).await?;
            let next = self.dial().await?;
            std::mem::replace(&mut socket, next).close(NORMAL_CLOSURE).await;
        }
    }

    /// Requests a ticket and opens a socket with it.
    async fn dial(&self) -> Result<WebSocket, ConnectionError> {
        let opened = self.api.open_connection(&[MESSAGE_TOPIC, CARD_TOPIC]).await?;
        let lost = || {
            let message = format!("{SERVER} gave no address for the connection");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        };
        let endpoint = opened["endpoint"].as_str().ok_or_else(lost)?;
        let ticket = opened["ticket"].as_str().ok_or_else(lost)?;
        let mut url: Url = endpoint.parse().map_err(|_| lost())?;
        url.query_pairs_mut().append_pair("ticket", ticket);
        Ok(WebSocket::connect(SERVER, url.as_str()).await?)
    }

    /// Reads frames until the socket should be replaced.
    async fn read_socket(
        &self,
        socket: &mut WebSocket,
        inbox: &dyn EventInbox,
    ) -> Result<(), ConnectionError> {
        let mut pings = interval(PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        loop {
            let message = tokio::select! {
                message = socket.next(MAX_SILENCE) => message?,
                _ = pings.tick() => {
                    socket.ping().await?;
                    continue;
                }
                () = sleep_until(heard + MAX_QUIET) => return Ok(()),
            };
            heard = Instant::now();
            inbox.note_alive();
            let SocketMessage::Text(text) = message else { continue };
            let Some(frame) = StreamFrame::parse(&text) else {
                tracing::debug!("a frame of {SERVER} could not be read");
                continue;
            };
            if let Some(decoded) = decode_frame(&frame) {
                if let Some(route) = decoded.route {
                    let chat = &decoded.event.chat;
                    inbox
                        .keep_route(chat, route.clone())
                        .await
                        .map_err(|error| not_stored(&error))?;
                    if self.webhooks.keep(chat.clone(), route) {
                        // Log the chat's id: the console does not show the ids that `groups` needs.
                        tracing::info!("{SERVER}: somebody has written in the chat {chat}");
                    }
                }
                inbox
                    .accept(vec![decoded.event], None)
                    .await
                    .map_err(|error| not_stored(&error))?;
            }
            // Acknowledge unreadable frames too, or the server would send them again and again.
            socket.send_text(frame.acknowledgement()).await?;
            if frame.is_disconnect() {
                return Ok(());
            }
        }
    }
}

fn not_stored(error: &StoreError) -> ConnectionError {
    let message = format!("the event could not be stored: {error}");
    ConnectionError::new(ConnectionErrorKind::Lost, message)
}
