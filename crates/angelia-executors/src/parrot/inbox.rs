//! The parrot's stdin, read on a thread of its own, so that an interrupt is noticed in the middle
//! of an answer.

use std::{
    io::{self, BufRead, Read as _},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use angelia_wire::limits::{KEEP, MAX_FRAME};
use serde::Deserialize;
use serde_json::Value;

/// Limits the lines that wait to be handled. At the limit, the other side waits.
const WAITING: usize = 64;
/// Small, because the reader thread only copies bytes.
const READER_STACK: usize = 64 * 1024;

/// One parsed line.
#[derive(Debug)]
pub(super) enum Heard {
    User(Prompt),
    /// A control request, which is answered at once.
    Request {
        id: Value,
        request: Value,
    },
    /// The answer to our control request.
    Answer {
        id: String,
        response: Value,
    },
    /// An unknown kind, which the protocol requires us to ignore.
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) images: usize,
    /// The sender's id for the message.
    pub(super) uuid: Option<String>,
}

/// An error after which the rest of stdin cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("stdin could not be read: {0}")]
    Input(#[from] io::Error),
    #[error("a line on stdin is longer than {MAX_FRAME} bytes; send less at a time")]
    TooLong,
    #[error("a line on stdin is not JSON ({0}); send one JSON object per line")]
    NotJson(#[from] serde_json::Error),
    #[error("a user message on stdin {0}; send {{\"role\":\"user\",\"content\":text or blocks}}")]
    NotAMessage(&'static str),
}

#[derive(Debug)]
pub(super) enum Next {
    Line(Heard),
    Quiet,
    Closed,
}

#[derive(Debug)]
pub(super) struct Inbox(Receiver<Result<Vec<u8>, Broken>>);

impl Inbox {
    /// Starts the reader thread, which ends with its input. It is never joined, because it may
    /// block in a read for ever.
    pub(super) fn open(input: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        thread::Builder::new()
            .name("stdin".into())
            .stack_size(READER_STACK)
            .spawn(move || copy_lines(input, &sender))?;
        Ok(Self(receiver))
    }

    /// Waits for the next line, at most for `within` if that is given.
    pub(super) fn next(&self, within: Option<Duration>) -> Result<Next, Broken> {
        let line = match within {
            Some(within) => self.0.recv_timeout(within),
            None => self.0.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match line {
            Ok(line) => understand(&line?).map(Next::Line),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Quiet),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::Closed),
        }
    }
}

fn copy_lines(mut input: impl BufRead, lines: &SyncSender<Result<Vec<u8>, Broken>>) {
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

fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Broken> {
    let mut line = Vec::new();
    let limit = MAX_FRAME as u64 + 1;
    let read = input.by_ref().take(limit).read_until(b'\n', &mut line)?;
    match read {
        0 => Ok(None),
        _ if line.len() > MAX_FRAME => Err(Broken::TooLong),
        _ => {
            if line.capacity() > KEEP {
                line.shrink_to_fit();
            }
            Ok(Some(line))
        }
    }
}

/// The fields of a line that the parrot reads; the others are skipped.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<Message>,
    uuid: Option<String>,
    request_id: Option<Value>,
    request: Option<Value>,
    response: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    role: Option<String>,
    content: Option<Value>,
}

fn understand(line: &[u8]) -> Result<Heard, Broken> {
    if line.trim_ascii().is_empty() {
        return Ok(Heard::Other);
    }
    let Ok(head) = serde_json::from_slice::<Head>(line) else {
        // Valid JSON of another shape is an unknown line, not an error.
        serde_json::from_slice::<serde::de::IgnoredAny>(line)?;
        return Ok(Heard::Other);
    };
    Ok(match head.kind.as_deref() {
        Some("user") => Heard::User(prompt(head.message, head.uuid)?),
        Some("control_request") => match (head.request_id, head.request) {
            (Some(id), Some(request)) => Heard::Request { id, request },
            _ => Heard::Other,
        },
        Some("control_response") => answer(head.response).unwrap_or(Heard::Other),
        _ => Heard::Other,
    })
}

fn prompt(message: Option<Message>, uuid: Option<String>) -> Result<Prompt, Broken> {
    let message = message.ok_or(Broken::NotAMessage("has no `message`"))?;
    if message.role.as_deref() != Some("user") {
        return Err(Broken::NotAMessage("has another role than `user`"));
    }
    let mut prompt = Prompt { uuid, ..Prompt::default() };
    match message.content {
        Some(Value::String(text)) => prompt.text = text,
        Some(Value::Array(blocks)) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
            prompt.text = texts.join("\n");
            prompt.images = blocks.iter().filter(|b| b["type"] == "image").count();
        }
        None | Some(Value::Null) => {}
        Some(_) => return Err(Broken::NotAMessage("has content of another kind")),
    }
    Ok(prompt)
}

fn answer(response: Option<Value>) -> Option<Heard> {
    let response = response?;
    let id = response.get("request_id")?.as_str()?.to_owned();
    Some(Heard::Answer { id, response })
}
