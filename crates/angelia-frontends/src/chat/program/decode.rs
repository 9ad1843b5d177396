//! Decodes a line from a program, and its events into ours. Pure.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, SendError, SendErrorKind,
    Sender, split_thread,
};
use jiff::Timestamp;
use serde::{Deserialize, de::Error as _};
use serde_json::{Value, value::RawValue};

use super::protocol::{
    Event, EventKind, Failure, FailureWord, File, Person, PersonMessage, Press, ProgramMessage,
};

/// The longest id of a person, a chat, a message or an event.
const MAX_ID_BYTES: usize = 512;

/// The longest pause that a program can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// A line from a program.
#[derive(Debug)]
pub enum ProgramLine {
    /// The answer to one of our requests.
    Answer {
        id: u64,
        result: Result<Box<RawValue>, SendError>,
    },
    /// An event, with the id for our answer and the cursor after the event, or the reason why the event is
    /// invalid.
    Event {
        id: Value,
        event: Result<(Box<InboundEvent>, Option<Arc<str>>), String>,
    },
    Alive,
    Lost(SendError),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Failure>,
}

/// Decodes a line. `now` is the default time of messages.
pub fn decode_line(line: &[u8], now: Timestamp) -> Result<ProgramLine, serde_json::Error> {
    let envelope: Envelope<'_> = serde_json::from_slice(line)?;
    if envelope.method.as_deref() == Some("alive") {
        return Ok(ProgramLine::Alive);
    }
    if envelope.method.is_none() {
        let id = envelope.id.as_ref().and_then(Value::as_u64);
        let id = id.ok_or_else(|| serde_json::Error::custom("an answer without the `id`"))?;
        let result = match (envelope.error, envelope.result) {
            (Some(error), _) => Err(error.into()),
            (None, Some(result)) => Ok(result.to_owned()),
            // `{"id": 1}` and a null result mean that the answer is empty.
            (None, None) => Ok(RawValue::from_string("{}".to_owned())?),
        };
        return Ok(ProgramLine::Answer { id, result });
    }
    let message = serde_json::from_slice::<ProgramMessage>(line);
    match (message, envelope.id) {
        (Ok(ProgramMessage::Event(event)), Some(id)) => {
            let cursor = event.cursor.as_deref().map(Arc::from);
            let event = read_event(*event, now).map(|event| (Box::new(event), cursor));
            Ok(ProgramLine::Event { id, event })
        }
        (Ok(ProgramMessage::Event(_)), None) => {
            Err(serde_json::Error::custom("an event without an `id`, which cannot be answered"))
        }
        (Ok(ProgramMessage::Alive), _) => Ok(ProgramLine::Alive),
        (Ok(ProgramMessage::Lost(failure)), _) => Ok(ProgramLine::Lost(failure.into())),
        // A line with an id gets an answer, so that the program learns what is wrong.
        (Err(error), Some(id)) => Ok(ProgramLine::Event { id, event: Err(error.to_string()) }),
        (Err(error), None) => Err(error),
    }
}

impl From<Failure> for SendError {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureWord::Refused => SendErrorKind::Refused,
            FailureWord::NotSent => SendErrorKind::NotSent,
            FailureWord::Unknown => SendErrorKind::Unknown,
        };
        let message = match failure.message.trim() {
            "" => "the program gives no reason".to_owned(),
            message => message.chars().take(500).collect(),
        };
        let retry_after =
            failure.retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let retry_after = retry_after.map(|wait| wait.min(MAX_RETRY_AFTER));
        Self { retry_after, ..Self::new(kind, message) }
    }
}

fn read_event(event: Event, now: Timestamp) -> Result<InboundEvent, String> {
    let Person { id, name, roles } = event.sender;
    for (what, id) in [("key", &event.key), ("chat", &event.chat), ("sender.id", &id)] {
        check_id(what, id)?;
    }
    if split_thread(&event.chat).1.is_some() {
        return Err("`chat` contains a `#`, which separates a chat from its thread".to_owned());
    }
    let chat = match &event.thread {
        Some(thread) => {
            check_id("thread", thread)?;
            if thread.contains('#') {
                return Err("`thread` has a `#`".to_owned());
            }
            format!("{}#{thread}", event.chat)
        }
        None => event.chat,
    };
    let kind = match event.kind {
        EventKind::Message(message) => InboundKind::Message(read_message(message, now)?),
        EventKind::Edited(message) => InboundKind::Edited(read_message(message, now)?),
        EventKind::Deleted { message_id } => InboundKind::Deleted(message_id.into()),
        EventKind::Press(Press { press_id, value, message_id, direct }) => {
            InboundKind::Press(ButtonPress {
                id: press_id.into(),
                value: value.into(),
                message_id: message_id.map(Into::into),
                is_direct: direct,
            })
        }
        EventKind::Stop => InboundKind::Stop,
    };
    let roles = roles.into_iter().map(Into::into).collect();
    let sender = Sender { roles, ..Sender::new(id, name) };
    Ok(InboundEvent { dedupe_key: event.key.into(), chat: chat.into(), sender, kind })
}

fn check_id(what: &str, id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains(char::is_control) {
        return Err(format!(
            "`{what}` is empty, longer than {MAX_ID_BYTES} bytes, or has control characters"
        ));
    }
    Ok(())
}

fn read_message(message: PersonMessage, now: Timestamp) -> Result<InboundMessage, String> {
    check_id("message_id", &message.message_id)?;
    let sent_at = match &message.sent_at {
        Some(time) => time.parse().map_err(|_| "`sent_at` is not an RFC 3339 time".to_owned())?,
        None => now,
    };
    let file = |file: File| InboundFile {
        id: file.id.into(),
        name: file.name.into(),
        media_type: file.media_type.map(Into::into),
        size: file.size,
    };
    Ok(InboundMessage {
        id: message.message_id.into(),
        text: message.text.into(),
        is_direct: message.direct,
        is_addressed: message.addressed,
        quoted: message.quoted.map(Into::into),
        files: message.files.into_iter().map(file).collect(),
        sent_at,
    })
}
