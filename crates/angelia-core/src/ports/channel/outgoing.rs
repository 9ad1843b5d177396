//! Messages to a channel, and whether they arrived.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::RichText;

/// A message to send. Contains no terminal control sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Identical for every attempt, so that a receiver can recognise a repetition.
    pub id: Arc<str>,
    /// The text as it was written. For adapters with [`rich_text`](super::ChannelCapabilities::rich_text),
    /// the visible text of `rich`.
    pub text: Arc<str>,
    /// The formatted text, if the platform can show it.
    pub rich: Option<RichText>,
    /// How many of the last blocks in `rich` show only the current activity, such as the running tool. A
    /// stream that cannot take text back omits them.
    pub passing_blocks: usize,
    /// An earlier attempt may have arrived.
    pub may_repeat: bool,
    pub buttons: Vec<Button>,
    /// The platform's id for the message that this one replies to.
    pub reply_to: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Button {
    pub label: Arc<str>,
    /// Sent back when the button is pressed; at most 64 bytes.
    pub value: Arc<str>,
    /// The equivalent command, for platforms whose buttons can only write a message.
    pub words: Option<Arc<str>>,
}

/// A file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingFile {
    pub id: Arc<str>,
    pub path: PathBuf,
    pub name: Arc<str>,
}

/// The platform's id for a message, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentMessage {
    pub message_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    pub kind: SendErrorKind,
    pub message: String,
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendErrorKind {
    /// The platform will never accept the message.
    Refused,
    /// The message has not arrived; another attempt may succeed.
    NotSent,
    /// The message may have arrived, because the connection broke after it was written.
    Unknown,
}

impl SendError {
    pub fn new(kind: SendErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    pub(super) fn cannot(what: &str) -> Self {
        Self::new(SendErrorKind::Refused, format!("this platform cannot {what}"))
    }
}
