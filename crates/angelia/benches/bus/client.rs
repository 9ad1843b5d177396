//! The client used for both daemons: blocking sockets, frames encoded in advance.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use angelia_wire::frame::{self, Frame, FrameDecoder};
use anyhow::{Context as _, Result, bail};

pub(crate) struct BenchBusClient {
    pub(crate) stream: UnixStream,
    frames: FrameDecoder,
}

/// Encodes a message frame with a body of 200 bytes, the size that every measure uses.
pub(crate) fn message(to: &str, id: &str) -> Vec<u8> {
    let filler = "x".repeat(200 - r#"{"text": ""}"#.len());
    let json = format!(
        r#"{{"type": "message", "to": "{to}", "from": "s", "id": "{id}", "ts": 1.5, "body": {{"text": "{filler}"}}}}"#
    );
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, json.as_bytes());
    bytes
}

impl BenchBusClient {
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        Ok(Self { stream, frames: FrameDecoder::new(16 * 1024 * 1024) })
    }

    pub(crate) fn connect_registered(socket: &Path, name: &str, asks: bool) -> Result<Self> {
        let mut client = Self::connect(socket)?;
        let ack = if asks { r#", "ack": true"# } else { "" };
        client.send_json(&format!(r#"{{"type": "register", "endpoint": "{name}"{ack}}}"#))?;
        client.wait_for_frame()?;
        Ok(client)
    }

    pub(crate) fn send_json(&mut self, json: &str) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, json.as_bytes());
        self.stream.write_all(&bytes)
    }

    /// Reads once and counts the frames that arrived: messages and `accepted`; others are ignored.
    pub(crate) fn read(&mut self) -> Result<FrameCounts> {
        let mut heard = FrameCounts::default();
        let buffer = self.frames.buffer();
        let start = buffer.len();
        buffer.resize(start + 64 * 1024, 0);
        let count = self.stream.read(&mut buffer[start..])?;
        buffer.truncate(start + count);
        if count == 0 {
            bail!("the daemon has hung up");
        }
        while let Some(frame) = self.frames.next() {
            let Frame::Whole(frame) = frame else {
                bail!("a frame that is too long");
            };
            // Both daemons write the type as the first member.
            match frame.get(10..14) {
                Some(b"mess") => heard.messages += 1,
                Some(b"acce") => heard.accepted += 1,
                Some(b"reje" | b"erro") => bail!("{}", String::from_utf8_lossy(frame)),
                _ => {}
            }
        }
        Ok(heard)
    }

    pub(crate) fn wait_for_frame(&mut self) -> Result<()> {
        loop {
            if self.frames.next().is_some() {
                return Ok(());
            }
            let buffer = self.frames.buffer();
            let start = buffer.len();
            buffer.resize(start + 4096, 0);
            let count = self.stream.read(&mut buffer[start..])?;
            buffer.truncate(start + count);
            if count == 0 {
                bail!("the daemon has hung up");
            }
        }
    }

    /// Reads until the wanted numbers of frames have arrived.
    pub(crate) fn read_until(&mut self, wanted: FrameCounts) -> Result<()> {
        let mut heard = FrameCounts::default();
        while heard.messages < wanted.messages || heard.accepted < wanted.accepted {
            let more = self.read().with_context(|| format!("after {heard:?}"))?;
            heard.messages += more.messages;
            heard.accepted += more.accepted;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameCounts {
    pub(crate) messages: usize,
    pub(crate) accepted: usize,
}
