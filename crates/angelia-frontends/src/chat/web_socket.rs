//! WebSocket connections to platforms. Like `platform_http`: they are encrypted except to this machine, and
//! errors never name a URL, because it may contain a ticket.

use std::{fmt, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Url;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_websockets::{
    ClientBuilder, CloseCode, Error, Limits, MaybeTlsStream, Message, WebSocketStream,
    upgrade::Response,
};

use super::platform_http::{is_loopback, use_crypto};

/// The time limit for connecting, including handshakes, and for one write.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The longest message that we accept.
const MAX_MESSAGE: usize = 16 << 20;

/// A connection to a platform's server.
pub(super) struct WebSocket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    server: &'static str,
    /// When we last read anything, including pings.
    last_read: Instant,
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SocketMessage {
    Text(String),
    Binary(Bytes),
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SocketError {
    #[error("the address of the socket is not that of an encrypted WebSocket")]
    Address,
    #[error("{server} refused the connection with {status}")]
    Refused { server: &'static str, status: u16 },
    #[error("{server} closed the connection ({code}{}{reason})", if reason.is_empty() { "" } else { ": " })]
    Closed { server: &'static str, code: u16, reason: String },
    #[error("{server} sent nothing for {} seconds", silence.as_secs())]
    Silent { server: &'static str, silence: Duration },
    #[error("{server} did not answer in time")]
    Timeout { server: &'static str },
    #[error("the connection to {server} was lost: {cause}")]
    Lost { server: &'static str, cause: String },
}

impl From<SocketError> for ConnectionError {
    fn from(error: SocketError) -> Self {
        Self::new(ConnectionErrorKind::Lost, error.to_string())
    }
}

impl WebSocket {
    /// Connects to an address; `server` names the platform in errors.
    pub(super) async fn connect(server: &'static str, address: &str) -> Result<Self, SocketError> {
        let (socket, _response) = Self::connect_with_response(server, address).await?;
        Ok(socket)
    }

    /// Like [`WebSocket::connect`], but also returns the handshake response, whose headers some
    /// platforms use.
    pub(super) async fn connect_with_response(
        server: &'static str,
        address: &str,
    ) -> Result<(Self, Response), SocketError> {
        let url: Url = address.parse().map_err(|_| SocketError::Address)?;
        let is_encrypted = url.scheme() == "wss";
        let is_local = url.scheme() == "ws" && is_loopback(&url);
        if !is_encrypted && !is_local {
            return Err(SocketError::Address);
        }
        use_crypto();
        let builder = ClientBuilder::new()
            .uri(url.as_str())
            .map_err(|_| SocketError::Address)?
            .limits(Limits::default().max_payload_len(Some(MAX_MESSAGE)));
        let connected = timeout(TIMEOUT, builder.connect()).await;
        let connected = connected.map_err(|_| SocketError::Timeout { server })?;
        let (stream, response) = connected.map_err(|error| describe(server, &error))?;
        Ok((Self { stream, server, last_read: Instant::now() }, response))
    }

    /// Returns the next message, and answers pings meanwhile. Fails if nothing at all arrives for `silence`.
    /// Cancel safe.
    pub(super) async fn next(&mut self, silence: Duration) -> Result<SocketMessage, SocketError> {
        loop {
            let read = timeout_at(self.last_read + silence, self.stream.next()).await;
            let server = self.server;
            let message = match read {
                Err(_elapsed) => return Err(SocketError::Silent { server, silence }),
                Ok(None) => {
                    let cause = "the server has left".to_owned();
                    return Err(SocketError::Lost { server, cause });
                }
                Ok(Some(message)) => message.map_err(|error| describe(server, &error))?,
            };
            self.last_read = Instant::now();
            if let Some((code, reason)) = message.as_close() {
                let reason = reason.to_owned();
                return Err(SocketError::Closed { server, code: code.into(), reason });
            }
            if let Some(text) = message.as_text() {
                return Ok(SocketMessage::Text(text.to_owned()));
            }
            if message.is_binary() {
                return Ok(SocketMessage::Binary(message.into_payload().into()));
            }
        }
    }

    pub(super) async fn send_text(&mut self, text: String) -> Result<(), SocketError> {
        self.send(Message::text(text)).await
    }

    pub(super) async fn send_binary(&mut self, bytes: Vec<u8>) -> Result<(), SocketError> {
        self.send(Message::binary(Bytes::from(bytes))).await
    }

    /// Sends a ping, to make the server show a sign of life.
    pub(super) async fn ping(&mut self) -> Result<(), SocketError> {
        self.send(Message::ping(Bytes::new())).await
    }

    /// Sends a close frame. It does not matter whether it arrives.
    pub(super) async fn close(mut self, code: u16) {
        let code = CloseCode::try_from(code).unwrap_or(CloseCode::NORMAL_CLOSURE);
        let _left = self.send(Message::close(Some(code), "")).await;
    }

    async fn send(&mut self, message: Message) -> Result<(), SocketError> {
        let server = self.server;
        match timeout(TIMEOUT, self.stream.send(message)).await {
            Ok(sent) => sent.map_err(|error| describe(server, &error)),
            Err(_elapsed) => Err(SocketError::Timeout { server }),
        }
    }
}

fn describe(server: &'static str, error: &Error) -> SocketError {
    match error {
        Error::Upgrade(tokio_websockets::upgrade::Error::DidNotSwitchProtocols(status)) => {
            SocketError::Refused { server, status: *status }
        }
        error => SocketError::Lost { server, cause: error.to_string() },
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("server", &self.server).finish_non_exhaustive()
    }
}
