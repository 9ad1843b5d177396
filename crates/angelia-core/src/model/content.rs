//! What people and agents say: the input of a turn, and the messages of a carried history.

use std::sync::Arc;

use super::{RawJson, ToolId};

/// One piece of a turn's input.
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

/// One message of a history that a new session starts with.
#[derive(Clone, Debug)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

/// One piece of a message.
#[derive(Clone, Debug)]
pub enum Part {
    Content(Content),
    Thinking { text: Arc<str>, signature: Option<Arc<str>> },
    ToolUse { id: ToolId, name: Arc<str>, input: RawJson },
    ToolResult { id: ToolId, ok: bool, content: Vec<Content> },
}
