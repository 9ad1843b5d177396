//! Reads stdin line by line, with a time limit while a turn is running, and parses the lines.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use angelia_wire::limits::{MAX_FRAME_BYTES, MAX_IDLE_BUFFER_BYTES, READ_BYTES};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};
use serde::Deserialize;
use serde_json::Value;

/// One parsed line.
#[derive(Debug)]
pub(super) enum StdinMessage {
    User(UserMessage),
    /// A control request, which is answered at once.
    Request {
        id: Value,
        request: Value,
    },
    /// The answer to our control request.
    Response {
        id: String,
        response: Value,
    },
    /// An unknown kind, which the protocol requires us to ignore.
    Other,
}

/// A message from the user.
#[derive(Debug)]
pub struct UserMessage {
    /// A text, a list of blocks, or null.
    pub content: Value,
    /// The sender's id for the message.
    pub uuid: Option<String>,
}

impl UserMessage {
    pub fn text(&self) -> String {
        content_text(&self.content)
    }

    pub fn images(&self) -> usize {
        let blocks = self.content.as_array();
        blocks.into_iter().flatten().filter(|block| block["type"] == "image").count()
    }
}

/// Returns the text of a message's content.
pub fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// An error after which the rest of stdin cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum StdinError {
    #[error("stdin could not be read: {0}")]
    Input(#[from] io::Error),
    #[error("a line on stdin is longer than {MAX_FRAME_BYTES} bytes; send less at a time")]
    TooLong,
    #[error("a line on stdin is not JSON ({0}); send one JSON object per line")]
    NotJson(#[from] serde_json::Error),
    #[error("a user message on stdin {0}; send {{\"role\":\"user\",\"content\":text or blocks}}")]
    NotAMessage(&'static str),
}

#[derive(Debug)]
pub(super) enum StdinEvent {
    Message(StdinMessage),
    Timeout,
    Closed,
}

/// Reads stdin without a second thread, because switching threads would take most of a turn's time.
#[derive(Debug)]
pub(super) struct StdinReader {
    input: OwnedFd,
    /// Receives a copy of every line.
    log: Option<File>,
    buffer: Vec<u8>,
    /// The start of the next line in the buffer.
    line_start: usize,
    /// The bytes before this position have already been searched for a line end.
    searched: usize,
    ended: bool,
}

impl StdinReader {
    pub(super) fn new(input: OwnedFd, log: Option<File>) -> Self {
        Self { input, log, buffer: Vec::new(), line_start: 0, searched: 0, ended: false }
    }

    /// Waits for the next line, for at most `limit` if given.
    pub(super) fn next_event(&mut self, limit: Option<Duration>) -> Result<StdinEvent, StdinError> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            if let Some(end) = self.line_end()? {
                let line = &self.buffer[self.line_start..end];
                if let Some(log) = &mut self.log {
                    log.write_all(&[line, b"\n"].concat())?;
                }
                let message = parse_line(line);
                self.line_start = self.buffer.len().min(end + 1);
                self.searched = self.line_start;
                return message.map(StdinEvent::Message);
            }
            if self.ended {
                return Ok(StdinEvent::Closed);
            }
            if let Some(until) = until
                && !self.wait_readable(until.saturating_duration_since(Instant::now()))?
            {
                return Ok(StdinEvent::Timeout);
            }
            self.fill()?;
        }
    }

    /// Returns the end of the next line if the buffer holds all of it. At the end of input, the
    /// rest counts as a line too.
    fn line_end(&mut self) -> Result<Option<usize>, StdinError> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let end = found.map_or(self.buffer.len(), |at| self.searched + at);
        self.searched = end;
        if end - self.line_start > MAX_FRAME_BYTES {
            return Err(StdinError::TooLong);
        }
        let complete = found.is_some() || (self.ended && end > self.line_start);
        Ok(complete.then_some(end))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.line_start);
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        let filled = self.buffer.len();
        self.line_start = 0;
        self.searched = filled;
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = retry_on_intr(|| rustix::io::read(&self.input, &mut self.buffer[filled..]));
        self.buffer.truncate(filled + read.unwrap_or_default());
        self.ended = read? == 0;
        Ok(())
    }

    fn wait_readable(&self, limit: Duration) -> io::Result<bool> {
        let mut inputs = [PollFd::new(&self.input, PollFlags::IN)];
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        Ok(retry_on_intr(|| poll(&mut inputs, Some(&limit)))? > 0)
    }
}

/// The fields of a line that we use; the others are skipped.
#[derive(Deserialize)]
struct StdinLine {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<StdinUserMessage>,
    uuid: Option<String>,
    request_id: Option<Value>,
    request: Option<Value>,
    response: Option<Value>,
}

#[derive(Deserialize)]
struct StdinUserMessage {
    role: Option<String>,
    #[serde(default)]
    content: Value,
}

fn parse_line(line: &[u8]) -> Result<StdinMessage, StdinError> {
    if line.trim_ascii().is_empty() {
        return Ok(StdinMessage::Other);
    }
    let Ok(head) = serde_json::from_slice::<StdinLine>(line) else {
        // Valid JSON of another shape is an unknown line, not an error.
        serde_json::from_slice::<serde::de::IgnoredAny>(line)?;
        return Ok(StdinMessage::Other);
    };
    Ok(match head.kind.as_deref() {
        Some("user") => StdinMessage::User(parse_user_message(head.message, head.uuid)?),
        Some("control_request") => match (head.request_id, head.request) {
            (Some(id), Some(request)) => StdinMessage::Request { id, request },
            _ => StdinMessage::Other,
        },
        Some("control_response") => parse_response(head.response).unwrap_or(StdinMessage::Other),
        _ => StdinMessage::Other,
    })
}

fn parse_user_message(
    message: Option<StdinUserMessage>,
    uuid: Option<String>,
) -> Result<UserMessage, StdinError> {
    let message = message.ok_or(StdinError::NotAMessage("has no `message`"))?;
    if message.role.as_deref() != Some("user") {
        return Err(StdinError::NotAMessage("has another role than `user`"));
    }
    match message.content {
        content @ (Value::Null | Value::String(_) | Value::Array(_)) => {
            Ok(UserMessage { content, uuid })
        }
        _ => Err(StdinError::NotAMessage("has content of another kind")),
    }
}

fn parse_response(response: Option<Value>) -> Option<StdinMessage> {
    let response = response?;
    let id = response.get("request_id")?.as_str()?.to_owned();
    Some(StdinMessage::Response { id, response })
}
