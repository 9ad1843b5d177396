//! The parrot's stdin, read on a thread of its own, so that an interrupt is noticed in the middle
//! of an answer.

use std::{
    io::{self, BufRead, Read as _},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use angelia_wire::limits::{MAX_FRAME_BYTES, MAX_IDLE_BUFFER_BYTES};
use serde::Deserialize;
use serde_json::Value;

/// Limits the lines that wait to be handled. At the limit, the other side waits.
const MAX_QUEUED_LINES: usize = 64;
/// Small, because the reader thread only copies bytes.
const READER_STACK_BYTES: usize = 64 * 1024;

/// One parsed line.
#[derive(Debug)]
pub(super) enum StdinMessage {
    User(UserPrompt),
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

#[derive(Debug, Default)]
pub(super) struct UserPrompt {
    pub(super) text: String,
    pub(super) images: usize,
    /// The sender's id for the message.
    pub(super) uuid: Option<String>,
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

#[derive(Debug)]
pub(super) struct StdinReader(Receiver<Result<Vec<u8>, StdinError>>);

impl StdinReader {
    /// Starts the reader thread, which ends with its input. It is never joined, because it may
    /// block in a read for ever.
    pub(super) fn open(input: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
        thread::Builder::new()
            .name("stdin".into())
            .stack_size(READER_STACK_BYTES)
            .spawn(move || forward_lines(input, &sender))?;
        Ok(Self(receiver))
    }

    /// Waits for the next line, at most for `within` if that is given.
    pub(super) fn next_event(&self, within: Option<Duration>) -> Result<StdinEvent, StdinError> {
        let line = match within {
            Some(within) => self.0.recv_timeout(within),
            None => self.0.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match line {
            Ok(line) => parse_line(&line?).map(StdinEvent::Message),
            Err(RecvTimeoutError::Timeout) => Ok(StdinEvent::Timeout),
            Err(RecvTimeoutError::Disconnected) => Ok(StdinEvent::Closed),
        }
    }
}

fn forward_lines(mut input: impl BufRead, lines: &SyncSender<Result<Vec<u8>, StdinError>>) {
    loop {
        let line = read_line(&mut input);
        let last = !matches!(&line, Ok(Some(_)));
        if let Some(line) = line.transpose()
            && lines.send(line).is_err()
        {
            return;
        }
        if last {
            return;
        }
    }
}

fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, StdinError> {
    let mut line = Vec::new();
    let limit = MAX_FRAME_BYTES as u64 + 1;
    let read = input.by_ref().take(limit).read_until(b'\n', &mut line)?;
    match read {
        0 => Ok(None),
        _ if line.len() > MAX_FRAME_BYTES => Err(StdinError::TooLong),
        _ => {
            if line.capacity() > MAX_IDLE_BUFFER_BYTES {
                line.shrink_to_fit();
            }
            Ok(Some(line))
        }
    }
}

/// The fields of a line that the parrot reads; the others are skipped.
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
    content: Option<Value>,
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
        Some("user") => StdinMessage::User(parse_prompt(head.message, head.uuid)?),
        Some("control_request") => match (head.request_id, head.request) {
            (Some(id), Some(request)) => StdinMessage::Request { id, request },
            _ => StdinMessage::Other,
        },
        Some("control_response") => parse_response(head.response).unwrap_or(StdinMessage::Other),
        _ => StdinMessage::Other,
    })
}

fn parse_prompt(
    message: Option<StdinUserMessage>,
    uuid: Option<String>,
) -> Result<UserPrompt, StdinError> {
    let message = message.ok_or(StdinError::NotAMessage("has no `message`"))?;
    if message.role.as_deref() != Some("user") {
        return Err(StdinError::NotAMessage("has another role than `user`"));
    }
    let mut prompt = UserPrompt { uuid, ..UserPrompt::default() };
    match message.content {
        Some(Value::String(text)) => prompt.text = text,
        Some(Value::Array(blocks)) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
            prompt.text = texts.join("\n");
            prompt.images = blocks.iter().filter(|b| b["type"] == "image").count();
        }
        None | Some(Value::Null) => {}
        Some(_) => return Err(StdinError::NotAMessage("has content of another kind")),
    }
    Ok(prompt)
}

fn parse_response(response: Option<Value>) -> Option<StdinMessage> {
    let response = response?;
    let id = response.get("request_id")?.as_str()?.to_owned();
    Some(StdinMessage::Response { id, response })
}
