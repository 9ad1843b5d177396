//! A client of a model API: blocking HTTP/1.1 on one connection that is kept open. It does as
//! little as possible, so that the client itself is not what is measured.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use memchr::memmem::Finder;
use serde_json::json;

use crate::Timing;

const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Substrings that mark a text delta and the end of a stream, one for each dialect.
const TEXT: [&str; 2] = [r#""text_delta""#, r#""content":"#];
const END: [&str; 2] = ["event: message_stop", "data: [DONE]"];

pub(crate) struct ApiClient {
    input: TcpStream,
    output: BufReader<TcpStream>,
    /// The daemon's address, and the token sent to it.
    address: SocketAddr,
    token: String,
    line: String,
    body: Vec<u8>,
}

/// The timing and the number of deltas of a stream that was read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamTiming {
    pub(crate) timing: Timing,
    pub(crate) deltas: usize,
}

impl ApiClient {
    pub(crate) fn connect(address: SocketAddr, token: &str) -> Result<Self> {
        let input = TcpStream::connect(address)?;
        input.set_nodelay(true)?;
        input.set_read_timeout(Some(READ_TIMEOUT))?;
        let output = BufReader::with_capacity(1 << 16, input.try_clone()?);
        Ok(Self {
            input,
            output,
            address,
            token: token.to_owned(),
            line: String::new(),
            body: Vec::new(),
        })
    }

    /// Sends a request with a short answer and returns its status.
    pub(crate) fn request(&mut self, method: &str, path: &str, body: &str) -> Result<u16> {
        self.send(method, path, "", body)?;
        let (status, length) = self.head()?;
        match length {
            Some(bytes) => {
                self.body.resize(bytes, 0);
                self.output.read_exact(&mut self.body)?;
            }
            None => while self.chunk()? {},
        }
        Ok(status)
    }

    /// Runs the next turn of a named conversation over `/v1/messages`, streamed.
    pub(crate) fn turn(&mut self, model: &str, name: &str, prompt: &str) -> Result<StreamTiming> {
        let headers = format!("x-angelia-session: {name}\r\n");
        let body = json!({"model": model, "max_tokens": 100_000, "stream": true,
            "messages": [{"role": "user", "content": prompt}]});
        self.stream("/v1/messages", &headers, &body.to_string())
    }

    /// Sends a request that is answered with a stream, and reads the stream.
    pub(crate) fn stream(&mut self, path: &str, headers: &str, body: &str) -> Result<StreamTiming> {
        let [texts, ends] = [TEXT, END].map(|signs| signs.map(Finder::new));
        let begun = Instant::now();
        self.send("POST", path, headers, body)?;
        let (status, length) = self.head()?;
        if let Some(bytes) = length {
            self.body.resize(bytes, 0);
            self.output.read_exact(&mut self.body)?;
        }
        let said = || String::from_utf8_lossy(&self.body).into_owned();
        ensure!(status == 200 && length.is_none(), "{status}: {}", said());
        let (mut first, mut end, mut deltas) = (None, None, 0);
        while self.chunk()? {
            let found: usize = (texts.iter()).map(|text| text.find_iter(&self.body).count()).sum();
            if found > 0 && first.is_none() {
                first = Some(begun.elapsed());
            }
            deltas += found;
            if ends.iter().any(|end| end.find(&self.body).is_some()) {
                end = Some(begun.elapsed());
            }
        }
        let timing = Timing {
            first: first.context("the answer had no text")?,
            end: end.context("the stream ended early")?,
        };
        Ok(StreamTiming { timing, deltas })
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        Ok(self.input.write_all(request.as_bytes())?)
    }

    /// Reads the head; returns the status, and the body's length where the head names it.
    fn head(&mut self) -> Result<(u16, Option<usize>)> {
        let status = self.next_line()?.split(' ').nth(1).map(str::parse);
        let status = status.context("no status line")??;
        let mut length = Some(0);
        loop {
            let line = self.next_line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => return Ok((status, length)),
                Some(("content-length", value)) => length = Some(value.trim().parse()?),
                Some(("transfer-encoding", _)) => length = None,
                Some(_) => {}
            }
        }
    }

    /// Reads one chunk into the body; returns `false` after the last one and its trailers.
    fn chunk(&mut self) -> Result<bool> {
        let size = usize::from_str_radix(self.next_line()?, 16).context("no size of a chunk")?;
        if size == 0 {
            while !self.next_line()?.is_empty() {}
            return Ok(false);
        }
        self.body.resize(size, 0);
        self.output.read_exact(&mut self.body)?;
        self.next_line()?;
        Ok(true)
    }

    fn next_line(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.output.read_line(&mut self.line)? > 0, "the server closed the connection");
        Ok(self.line.trim_end())
    }
}
