//! The input of a turn, and the messages of a history.

use std::sync::Arc;

use super::{RawJson, ToolId};

/// One part of a turn's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(Arc<str>),
    Image { media_type: Arc<str>, data: Arc<[u8]> },
}

impl Content {
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }
}

/// One message of a conversation that a new session starts with.
#[derive(Clone, Debug)]
pub struct HistoryMessage {
    pub role: Role,
    pub parts: Vec<MessagePart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

/// One part of a message.
#[derive(Clone, Debug)]
pub enum MessagePart {
    Content(Content),
    Thinking { text: Arc<str>, signature: Option<Arc<str>> },
    ToolUse { id: ToolId, name: Arc<str>, input: RawJson },
    ToolResult { id: ToolId, ok: bool, content: Vec<Content> },
}
