//! A bus client that sends and receives raw frames, for tests of the daemon.

#![expect(clippy::panic, reason = "a check fails by panicking")]

use std::{io, path::Path, time::Duration};

use angelia_wire::frame::{self, Frame, FrameDecoder};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

/// Generous, because the machine may be busy.
const FRAME_TIMEOUT: Duration = Duration::from_mins(1);

/// One connection.
#[derive(Debug)]
pub struct BusPeer {
    pub stream: UnixStream,
    frames: FrameDecoder,
}

impl BusPeer {
    pub async fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::connect(socket).await?,
            // Larger than any frame the daemon may send.
            frames: FrameDecoder::new(11 * 1024 * 1024),
        })
    }

    /// Connects to the socket, retrying until a daemon listens on it.
    pub async fn connect_with_retry(socket: &Path) -> Self {
        let connected = timeout(FRAME_TIMEOUT, async {
            loop {
                match Self::connect(socket).await {
                    Ok(peer) => return peer,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        let Ok(peer) = connected.await else {
            panic!("nobody listens on {}", socket.display());
        };
        peer
    }

    pub async fn send(&mut self, frame: &Value) -> io::Result<()> {
        self.send_bytes(&encode_frames([frame])).await
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads the next frame. Returns `None` when the daemon has closed the connection.
    pub async fn next_frame(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some(frame) = self.frames.next() {
                let Frame::Whole(json) = frame else {
                    return Err(io::Error::other("a frame that is too long"));
                };
                return Ok(Some(serde_json::from_slice(json)?));
            }
            if self.stream.read_buf(self.frames.buffer()).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads the next frame. Panics if none arrives.
    pub async fn expect_frame(&mut self) -> Value {
        match timeout(FRAME_TIMEOUT, self.next_frame()).await {
            Ok(Ok(Some(frame))) => frame,
            other => panic!("no frame: {other:?}"),
        }
    }

    /// Reads the next frame of this type and skips all others.
    pub async fn expect_frame_of_type(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.expect_frame().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Sends a frame and returns the next one that arrives.
    pub async fn request(&mut self, frame: Value) -> Value {
        if let Err(error) = self.send(&frame).await {
            panic!("{frame}: {error}");
        }
        self.expect_frame().await
    }

    /// Asserts that the daemon closes the connection, cleanly or with an error.
    pub async fn assert_closed(&mut self) {
        match timeout(FRAME_TIMEOUT, self.next_frame()).await {
            Ok(Ok(None) | Err(_)) => {}
            other => panic!("it should be closed: {other:?}"),
        }
    }

    /// Asserts that no frame arrives for 100 ms.
    pub async fn assert_no_frame(&mut self) {
        if let Ok(heard) = timeout(Duration::from_millis(100), self.next_frame()).await {
            panic!("it should hear nothing: {heard:?}");
        }
    }
}

/// Encodes frames with Python's JSON spacing: a blank after each colon and comma.
pub fn encode_frames<'a>(frames: impl IntoIterator<Item = &'a Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in frames {
        let mut json = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut json, PythonJsonFormatter);
        if let Err(error) = serde::Serialize::serialize(value, &mut serializer) {
            panic!("{value}: {error}");
        }
        frame::encode(&mut bytes, &json);
    }
    bytes
}

struct PythonJsonFormatter;

impl serde_json::ser::Formatter for PythonJsonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
