//! Conversations that a person had in an agent's own program, outside Angelia.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;

use super::{BlockId, Content, EventKind, NativeSessionId, TextChannel};

/// A conversation kept by an agent's own program, as shown in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastConversation {
    pub id: NativeSessionId,
    /// The working directory of the conversation.
    pub cwd: PathBuf,
    pub used_at: Timestamp,
    pub first_words: Option<Arc<str>>,
}

/// One input of such a conversation, with the agent's answer and actions.
#[derive(Clone, Debug)]
pub struct PastTurn {
    pub input: Vec<Content>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// Texts, tool calls and their results, in order.
    pub events: Vec<EventKind>,
}

impl PastTurn {
    pub const fn new(input: Vec<Content>, at: Timestamp) -> Self {
        Self { input, started_at: at, ended_at: at, events: Vec::new() }
    }

    /// Appends a text as a separate block.
    pub fn push_text(&mut self, channel: TextChannel, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let blocks = self.events.iter().filter(|kind| matches!(kind, EventKind::Block { .. }));
        let block = BlockId::try_from(blocks.count()).unwrap_or(BlockId::MAX);
        self.events.push(EventKind::Block { block, channel, text: text.into() });
    }
}
