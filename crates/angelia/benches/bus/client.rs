//! The client used for both daemons: blocking sockets, frames encoded in advance.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use angelia_wire::frame::{self, Frame, Frames};
use anyhow::{Context as _, Result, bail};

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    frames: Frames,
}

/// Encodes a message frame with a body of 200 bytes, the size that every measure uses.
pub(crate) fn message(to: &str, id: &str) -> Vec<u8> {
    let filler = "x".repeat(200 - r#"{"text": ""}"#.len());
    let json = format!(
        r#"{{"type": "message", "to": "{to}", "from": "s", "id": "{id}", "ts": 1.5, "body": {{"text": "{filler}"}}}}"#
    );
    let mut bytes = Vec::new();
    frame::put(&mut bytes, json.as_bytes());
    bytes
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        Ok(Self { stream, frames: Frames::new(16 * 1024 * 1024) })
    }

    pub(crate) fn registered(socket: &Path, name: &str, asks: bool) -> Result<Self> {
        let mut client = Self::connect(socket)?;
        let ack = if asks { r#", "ack": true"# } else { "" };
        client.say(&format!(r#"{{"type": "register", "endpoint": "{name}"{ack}}}"#))?;
        client.hear()?;
        Ok(client)
    }

    pub(crate) fn say(&mut self, json: &str) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, json.as_bytes());
        self.stream.write_all(&bytes)
    }

    /// Reads once and counts the frames that arrived: messages and `accepted`; others are ignored.
    pub(crate) fn read(&mut self) -> Result<Heard> {
        let mut heard = Heard::default();
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

    pub(crate) fn hear(&mut self) -> Result<()> {
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
    pub(crate) fn until(&mut self, wanted: Heard) -> Result<()> {
        let mut heard = Heard::default();
        while heard.messages < wanted.messages || heard.accepted < wanted.accepted {
            let more = self.read().with_context(|| format!("after {heard:?}"))?;
            heard.messages += more.messages;
            heard.accepted += more.accepted;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) messages: usize,
    pub(crate) accepted: usize,
}
