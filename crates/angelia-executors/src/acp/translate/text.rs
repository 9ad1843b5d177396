//! Text blocks. ACP streams text without block boundaries. A block therefore ends when text of the
//! other channel or another message arrives, when a tool is called, or when the turn ends.

use angelia_core::{
    model::{BlockId, EventKind, TextChannel},
    ports::AgentEvent,
};

use super::emit_event;

#[derive(Debug, Default)]
pub(super) struct BlockStream {
    next: BlockId,
    open: Option<OpenTextBlock>,
}

#[derive(Debug)]
struct OpenTextBlock {
    block: BlockId,
    channel: TextChannel,
    message: Option<Box<str>>,
    text: String,
}

impl BlockStream {
    /// Adds a chunk of text, which must not be empty.
    pub(super) fn add_chunk(
        &mut self,
        channel: TextChannel,
        message: Option<&str>,
        text: &str,
        out: &mut Vec<AgentEvent>,
    ) {
        let goes_on = self.open.as_ref().is_some_and(|open| {
            let other = |known: &str| message.is_some_and(|message| message != known);
            open.channel == channel && !open.message.as_deref().is_some_and(other)
        });
        if !goes_on {
            self.close(out);
        }
        let next = &mut self.next;
        let open = self.open.get_or_insert_with(|| {
            let block = *next;
            *next += 1;
            OpenTextBlock { block, channel, message: None, text: String::new() }
        });
        if open.message.is_none() {
            open.message = message.map(Into::into);
        }
        open.text.push_str(text);
        let delta = EventKind::Delta { block: open.block, channel, text: text.into() };
        emit_event(delta, out);
    }

    /// Emits the open block, if there is one, with its whole text.
    pub(super) fn close(&mut self, out: &mut Vec<AgentEvent>) {
        if let Some(open) = self.open.take() {
            let block = EventKind::Block {
                block: open.block,
                channel: open.channel,
                text: open.text.into(),
            };
            emit_event(block, out);
        }
    }
}
