//! A client's WebSocket, as seen by the fake of a platform.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_websockets::{CloseCode, Message, ServerBuilder};

use super::{PlatformFake, PlatformRequest};

/// A frame from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketFrame {
    Text(String),
    Binary(Vec<u8>),
}

impl SocketFrame {
    /// Returns the frame as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        match self {
            Self::Text(text) => serde_json::from_str(text).ok(),
            Self::Binary(bytes) => serde_json::from_slice(bytes).ok(),
        }
    }
}

/// A connected client. Clones are the same connection.
#[derive(Clone, Debug)]
pub struct ClientSocket {
    id: u64,
    outgoing: mpsc::UnboundedSender<Outgoing>,
}

#[derive(Debug)]
enum Outgoing {
    Message(Message),
    /// Cuts the connection without a close frame.
    Cut,
}

impl ClientSocket {
    /// Returns a number that is unique among the connections.
    pub const fn id(&self) -> u64 {
        self.id
    }

    pub fn send_json(&self, frame: &Value) {
        self.send(Outgoing::Message(Message::text(frame.to_string())));
    }

    pub fn send_text(&self, text: &str) {
        self.send(Outgoing::Message(Message::text(text.to_owned())));
    }

    pub fn send_binary(&self, bytes: impl Into<Vec<u8>>) {
        self.send(Outgoing::Message(Message::binary(Bytes::from(bytes.into()))));
    }

    pub fn ping(&self) {
        self.send(Outgoing::Message(Message::ping(Bytes::new())));
    }

    pub fn close(&self, code: u16, reason: &str) {
        let code = CloseCode::try_from(code).ok();
        self.send(Outgoing::Message(Message::close(code, reason)));
    }

    pub fn cut(&self) {
        self.send(Outgoing::Cut);
    }

    /// Returns whether the connection is open.
    pub fn is_open(&self) -> bool {
        !self.outgoing.is_closed()
    }

    fn send(&self, frame: Outgoing) {
        // A client that has disconnected gets nothing.
        let _left = self.outgoing.send(frame);
    }
}

/// Serves a connection until it ends.
pub(super) fn run(fake: &impl PlatformFake, request: &PlatformRequest, stream: TcpStream) {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
        let Ok((_request, mut stream)) = ServerBuilder::new().accept(stream).await else { return };
        #[expect(clippy::disallowed_methods, reason = "a test sends as much as it says")]
        let (outgoing, mut waiting) = mpsc::unbounded_channel();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let socket = ClientSocket { id, outgoing };
        fake.socket_opened(request, &socket);
        loop {
            tokio::select! {
                frame = waiting.recv() => match frame {
                    Some(Outgoing::Message(message)) => {
                        if stream.send(message).await.is_err() {
                            break;
                        }
                    }
                    Some(Outgoing::Cut) | None => break,
                },
                message = stream.next() => match message {
                    Some(Ok(message)) => {
                        if let Some(text) = message.as_text() {
                            fake.frame(&socket, SocketFrame::Text(text.to_owned()));
                        } else if message.is_binary() {
                            let bytes = message.into_payload().to_vec();
                            fake.frame(&socket, SocketFrame::Binary(bytes));
                        }
                    }
                    Some(Err(_)) | None => break,
                },
            }
        }
        drop(waiting);
        fake.socket_closed(&socket);
    });
}
