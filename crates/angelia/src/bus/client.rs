//! A client of a running bus, for commands: one connection to its socket.

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

/// The daemon adds fields to a message, which may make its frame a little longer.
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

    pub(crate) async fn send(&mut self, words: &Value) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, words.to_string().as_bytes());
        self.stream.write_all(&bytes).await
    }

    /// Waits for the next frame. The end of the stream is an error.
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

    /// Sends a request and waits for the answer. A daemon that does not know the request sends no
    /// answer, hence the timeout.
    pub(crate) async fn request(
        &mut self,
        question: &Value,
        patience: Duration,
    ) -> io::Result<Value> {
        self.send(question).await?;
        let answer = timeout(patience, self.receive()).await;
        let answer = answer.map_err(|_silence| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(serde_json::from_slice(&answer)?)
    }
}
