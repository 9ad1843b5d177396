//! A client of the daemon's Unix socket: plain HTTP/1.1 on one connection that is kept open, as any
//! program would talk to it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{Timing, direct::contains};

const READ_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct SocketClient {
    input: UnixStream,
    output: BufReader<UnixStream>,
    line: String,
    body: Vec<u8>,
}

/// The framing of a response body.
enum BodyFraming {
    Known(usize),
    Chunked,
}

impl SocketClient {
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let input = UnixStream::connect(socket)?;
        input.set_read_timeout(Some(READ_TIMEOUT))?;
        let output = BufReader::with_capacity(1 << 16, input.try_clone()?);
        Ok(Self { input, output, line: String::new(), body: Vec::new() })
    }

    pub(crate) fn is_healthy(&mut self) -> Result<bool> {
        Ok(self.request("GET", "/healthz", None)?["status"] == "ok")
    }

    pub(crate) fn create_session(&mut self) -> Result<String> {
        let session = self.request("POST", "/api/sessions", Some(&json!({})))?;
        let id = session["id"].as_str();
        Ok(id.with_context(|| format!("no session: {session}"))?.to_owned())
    }

    pub(crate) fn delete_session(&mut self, session: &str) -> Result<()> {
        self.request("DELETE", &format!("/api/sessions/{session}"), None).map(drop)
    }

    pub(crate) fn turn(&mut self, session: &str, prompt: &str) -> Result<Timing> {
        self.turn_since(Instant::now(), session, prompt)
    }

    /// Submits a turn without waiting for it, and returns its id.
    pub(crate) fn submit(&mut self, session: &str, prompt: &str) -> Result<String> {
        let path = format!("/api/sessions/{session}/turns");
        let accepted = self.request("POST", &path, Some(&json!({"input": prompt})))?;
        let turn = accepted["turn_id"].as_str().or_else(|| accepted["id"].as_str());
        Ok(turn.with_context(|| format!("no turn: {accepted}"))?.to_owned())
    }

    /// Submits a turn and follows its events; the timing starts at `begun`.
    pub(crate) fn turn_since(
        &mut self,
        begun: Instant,
        session: &str,
        prompt: &str,
    ) -> Result<Timing> {
        let turn = self.submit(session, prompt)?;
        self.send("GET", &format!("/api/turns/{turn}/events"), None)?;
        let (status, length) = self.head()?;
        ensure!(status == 200 && matches!(length, BodyFraming::Chunked), "no events: {status}");
        let mut first = None;
        let mut end = None;
        // An event never spans two chunks, because the daemon writes each batch as one chunk.
        while self.chunk()? {
            // A turn may be over before its events are requested; then its text arrives as blocks.
            let is_text = || {
                contains(&self.body, b"event: text.delta\n")
                    || contains(&self.body, b"event: text\n")
            };
            if first.is_none() && is_text() {
                first = Some(begun.elapsed());
            }
            if contains(&self.body, b"event: turn.finished\n") {
                end = Some(begun.elapsed());
                ensure!(
                    contains(&self.body, br#""status":"completed""#),
                    "the turn did not complete: {}",
                    String::from_utf8_lossy(&self.body)
                );
            }
        }
        Ok(Timing {
            first: first.context("the turn had no text")?,
            end: end.context("the turn's events ended early")?,
        })
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        self.send(method, path, body)?;
        let (status, length) = self.head()?;
        match length {
            BodyFraming::Known(bytes) => {
                self.body.resize(bytes, 0);
                self.output.read_exact(&mut self.body)?;
            }
            BodyFraming::Chunked => bail!("{method} {path} was answered with a stream"),
        }
        if !(200..300).contains(&status) {
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&self.body));
        }
        Ok(serde_json::from_slice(&self.body).unwrap_or_default())
    }

    fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-angelia-terminal: 1\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(self.input.write_all(request.as_bytes())?)
    }

    fn head(&mut self) -> Result<(u16, BodyFraming)> {
        let status = self.next_line()?.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.context("no status line")?;
        let mut length = BodyFraming::Known(0);
        loop {
            let line = self.next_line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => return Ok((status, length)),
                Some(("content-length", value)) => {
                    length = BodyFraming::Known(value.trim().parse()?);
                }
                Some(("transfer-encoding", _)) => length = BodyFraming::Chunked,
                Some(_) => {}
            }
        }
    }

    /// Reads one chunk into the body; returns `false` after the last one.
    fn chunk(&mut self) -> Result<bool> {
        let size = usize::from_str_radix(self.next_line()?, 16).context("no size of a chunk")?;
        self.body.resize(size, 0);
        self.output.read_exact(&mut self.body)?;
        self.next_line()?;
        Ok(size > 0)
    }

    fn next_line(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.output.read_line(&mut self.line)? > 0, "the daemon closed the connection");
        Ok(self.line.trim_end())
    }
}
