//! A client of a running bus, for commands: one connection to the bus's socket.

use std::{io, path::Path, time::Duration};

use angelia_frontends::bus::MAX_FRAME_BYTES;
use angelia_wire::frame::{self, Frame, FrameDecoder};
use bytes::Bytes;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

/// Slack for the fields that the daemon adds to a message, which may lengthen its frame a little.
const FRAME_SLACK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct BusClient {
    stream: UnixStream,
    frames: FrameDecoder,
}

impl BusClient {
    pub(crate) async fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::connect(socket).await?,
            frames: FrameDecoder::new(MAX_FRAME_BYTES + FRAME_SLACK_BYTES),
        })
    }

    pub(crate) async fn send(&mut self, message: &Value) -> io::Result<()> {
        self.send_json(message.to_string().as_bytes()).await
    }

    pub(crate) async fn send_json(&mut self, json: &[u8]) -> io::Result<()> {
        self.send_all(&[json]).await
    }

    /// Sends several frames at once.
    pub(crate) async fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        let length = |json: &&[u8]| frame::HEADER_BYTES + json.len();
        let mut bytes = Vec::with_capacity(frames.iter().map(length).sum());
        for json in frames {
            frame::encode(&mut bytes, json);
        }
        self.stream.write_all(&bytes).await
    }

    /// Waits for the next frame. The end of the stream is an error. Cancel safe.
    pub(crate) async fn receive(&mut self) -> io::Result<Bytes> {
        loop {
            match self.frames.next() {
                Some(Frame::Whole(frame)) => return Ok(Bytes::copy_from_slice(frame)),
                Some(Frame::TooLong { .. }) => {
                    return Err(io::Error::other("the bus sent a frame that is too long"));
                }
                None => {}
            }
            if self.stream.read_buf(self.frames.buffer()).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends a request and waits for the reply. The timeout is needed because a daemon that does
    /// not know the request sends no reply.
    pub(crate) async fn request(
        &mut self,
        message: &Value,
        reply_timeout: Duration,
    ) -> io::Result<Value> {
        self.send(message).await?;
        let reply = timeout(reply_timeout, self.receive()).await;
        let reply = reply.map_err(|_silence| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(serde_json::from_slice(&reply)?)
    }
}
