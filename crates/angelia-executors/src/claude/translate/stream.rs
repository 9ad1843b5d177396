//! Streamed text: the deltas, and the blocks of the message that they belong to.
//!
//! Deltas are provisional until the `assistant` line settles their block. If a message is replaced,
//! abandoned or superseded by a non-streaming retry, its unsettled blocks are withdrawn.

use angelia_core::{
    model::{BlockId, EventKind, TextChannel, ToolId, Usage},
    ports::AgentEvent,
};

use super::{
    StreamTranslator, emit_event, emit_native_line,
    turn::{ClaudeTurn, emit_block},
};
use crate::claude::{
    context_window::ContextUsage,
    protocol::incoming::{CliBlock, CliMessage, LineHead, StreamEvent, StreamTail},
    usage::MessageUsage,
};

/// The main conversation's message that is being written.
#[derive(Debug, Default)]
pub(super) struct MessageStream {
    message: Option<Box<str>>,
    slots: Vec<BlockSlot>,
    /// Set until the message is complete.
    is_open: bool,
    usage: MessageUsage,
    /// The usage of the complete messages of this turn.
    turn_usage: Usage,
    pub(super) context_usage: ContextUsage,
}

#[derive(Debug)]
struct BlockSlot {
    /// The API's index of the block within its message; unknown if it was not streamed.
    index: Option<u32>,
    content: SlotContent,
}

#[derive(Debug)]
enum SlotContent {
    Text {
        channel: TextChannel,
        /// Our id for the block, once text was emitted.
        block: Option<BlockId>,
        /// The concatenated deltas.
        text: String,
        settled: bool,
    },
    Tool(ToolId),
}

impl MessageStream {
    /// Begins another message. Withdraws the unsettled blocks of the previous one, which was never
    /// finished.
    fn start_message(
        &mut self,
        message: Option<&str>,
        turn: &mut ClaudeTurn,
        out: &mut Vec<AgentEvent>,
    ) {
        for slot in self.slots.drain(..) {
            if let SlotContent::Text { block: Some(block), settled: false, .. } = slot.content {
                turn.withdraw(block, out);
            }
        }
        self.message = message.map(Into::into);
        self.is_open = false;
    }

    /// Records the model and the input usage at the start of a message.
    fn begin_usage(&mut self, message: &CliMessage<'_>) {
        self.context_usage.start_request(message.model.as_str());
        if let Some(usage) = &message.usage.0 {
            self.usage.observe(usage);
            self.context_usage.set_used(self.usage.tokens());
        }
    }

    /// Records the usage of a message from an `assistant` line, unless the message was streamed,
    /// because the stream has better numbers.
    pub(super) fn record_unstreamed_usage(&mut self, message: &CliMessage<'_>) {
        let id = message.id.as_str();
        if id.is_some() && self.message.as_deref() != id {
            let mut usage = MessageUsage::default();
            if let Some(told) = &message.usage.0 {
                usage.observe(told);
            }
            self.context_usage.start_request(message.model.as_str());
            self.context_usage.set_used(usage.tokens());
        }
    }

    /// Ends the message and adds its usage.
    fn end_message(&mut self) {
        self.is_open = false;
        let usage = std::mem::take(&mut self.usage).usage();
        self.turn_usage = self.turn_usage.plus(&usage);
    }

    fn push_text(&mut self, index: Option<u32>, channel: TextChannel) -> &mut BlockSlot {
        let content =
            SlotContent::Text { channel, block: None, text: String::new(), settled: false };
        self.slots.push_mut(BlockSlot { index, content })
    }

    fn push_delta(
        &mut self,
        index: u32,
        channel: TextChannel,
        delta: &str,
        turn: &mut ClaudeTurn,
        out: &mut Vec<AgentEvent>,
    ) {
        // A settled block takes no more text; a later delta with the same index starts a new block.
        let takes = |slot: &BlockSlot| {
            slot.index == Some(index)
                && !matches!(slot.content, SlotContent::Text { settled: true, .. })
        };
        let at = self.slots.iter().rposition(takes);
        let slot = match at {
            Some(at) => &mut self.slots[at],
            None => self.push_text(Some(index), channel),
        };
        let SlotContent::Text { channel, block, text, .. } = &mut slot.content else {
            return;
        };
        text.push_str(delta);
        let block = *block.get_or_insert_with(|| turn.new_block(*channel));
        let kind = EventKind::Delta { block, channel: *channel, text: delta.into() };
        emit_event(kind, out);
    }

    /// Settles a block of `message` with its whole text from the `assistant` line.
    pub(super) fn settle(
        &mut self,
        message: Option<&str>,
        channel: TextChannel,
        whole: &str,
        turn: &mut ClaudeTurn,
        out: &mut Vec<AgentEvent>,
    ) {
        self.switch_message(message, turn, out);
        let unsettled = |slot: &BlockSlot| {
            matches!(&slot.content, SlotContent::Text { channel: its, settled: false, .. }
                if *its == channel)
        };
        // `assistant` lines arrive in the order of the blocks, so settle the first open one.
        let slot = match self.slots.iter().position(unsettled) {
            Some(at) => &mut self.slots[at],
            None => self.push_text(None, channel),
        };
        let SlotContent::Text { block, settled, .. } = &mut slot.content else {
            return;
        };
        *settled = true;
        match (*block, whole.is_empty()) {
            (None, true) => {}
            (Some(block), true) => turn.withdraw(block, out),
            (shown, false) => {
                let shown = shown.unwrap_or_else(|| turn.new_block(channel));
                *block = Some(shown);
                emit_block(shown, channel, whole.into(), out);
            }
        }
    }

    /// Records a tool call of `message` from the `assistant` line.
    pub(super) fn add_tool(
        &mut self,
        message: Option<&str>,
        id: &ToolId,
        turn: &mut ClaudeTurn,
        out: &mut Vec<AgentEvent>,
    ) {
        self.switch_message(message, turn, out);
        let known = |slot: &BlockSlot| matches!(&slot.content, SlotContent::Tool(its) if its == id);
        if !self.slots.iter().any(known) {
            let content = SlotContent::Tool(id.clone());
            self.slots.push(BlockSlot { index: None, content });
        }
    }

    fn switch_message(
        &mut self,
        message: Option<&str>,
        turn: &mut ClaudeTurn,
        out: &mut Vec<AgentEvent>,
    ) {
        if message.is_some() && self.message.as_deref() != message {
            self.start_message(message, turn, out);
        }
    }

    fn abandon(&mut self, from: u32, turn: &mut ClaudeTurn, out: &mut Vec<AgentEvent>) {
        self.slots.retain(|slot| {
            // A slot without an index came from an `assistant` line alone. Keep it unless the whole
            // message (index 0) is abandoned.
            if from > 0 && slot.index.is_none_or(|index| index < from) {
                return true;
            }
            match &slot.content {
                SlotContent::Text { block, .. } => {
                    if let Some(block) = block {
                        turn.withdraw(*block, out);
                    }
                }
                SlotContent::Tool(id) => {
                    turn.abandon_tool(id, "abandoned with the message that made the call", out);
                }
            }
            false
        });
    }

    /// Emits unsettled text as whole blocks. The turn breaks off, and text that was shown is kept.
    pub(super) fn flush_unsettled(&mut self, out: &mut Vec<AgentEvent>) {
        for slot in self.slots.drain(..) {
            if let SlotContent::Text { channel, block: Some(block), text, settled: false } =
                slot.content
            {
                emit_block(block, channel, text.into(), out);
            }
        }
        self.message = None;
        self.is_open = false;
    }
}

impl StreamTranslator {
    /// Reports whether the model is in the middle of a message.
    pub fn is_writing(&self) -> bool {
        self.stream.is_open
    }

    /// Emits the turn's usage so far, summed from its messages. The result is more accurate.
    pub fn emit_usage_so_far(&mut self, out: &mut Vec<AgentEvent>) {
        let spent = self.stream.turn_usage.clone();
        if let Some(turn) = self.our_turn() {
            let usage = turn.usage.plus(&spent);
            self.emit_usage(usage, out);
        }
    }

    pub(super) fn on_stream_event(
        &mut self,
        head: &LineHead<'_>,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) {
        let Some(parsed) = &head.event else {
            emit_native_line("stream_event", line, out);
            return;
        };
        if &*parsed.kind == "message_start" {
            self.confirm_by_line(line, out);
        }
        // Skip the streams of sub-agents and foreign turns; their `assistant` lines are enough.
        let ours = head.parent_tool_use_id.is_none() && self.our_turn().is_some();
        match (&*parsed.kind, &parsed.delta) {
            ("content_block_delta", Some(delta)) => {
                let (channel, text) = match (delta.kind.as_deref(), &delta.text, &delta.thinking) {
                    (Some("text_delta"), Some(text), _) => (TextChannel::Answer, text),
                    (Some("thinking_delta"), _, Some(text)) => (TextChannel::Reasoning, text),
                    (Some("input_json_delta" | "signature_delta"), ..) => return,
                    _ => return emit_native_line("stream_event/content_block_delta", line, out),
                };
                if ours
                    && !text.is_empty()
                    && let Some(turn) = self.turn.as_mut()
                {
                    let index = parsed.index.unwrap_or(0);
                    self.stream.push_delta(index, channel, text, turn, out);
                }
            }
            (
                "message_start"
                | "content_block_start"
                | "message_stop"
                | "content_block_stop"
                | "message_delta"
                | "ping",
                _,
            ) => {
                if ours {
                    self.on_stream_frame(parsed, line, out);
                }
            }
            (kind, _) => emit_native_line(&format!("stream_event/{kind}"), line, out),
        }
    }

    fn on_stream_frame(&mut self, parsed: &StreamEvent<'_>, line: &str, out: &mut Vec<AgentEvent>) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        match &*parsed.kind {
            "message_start" => {
                turn.resume_activity(out);
                let message = parsed.message.map(|raw| serde_json::from_str(raw.get()));
                let message: Option<CliMessage<'_>> = message.and_then(Result::ok);
                let id = message.as_ref().and_then(|message| message.id.as_str());
                self.stream.start_message(id, turn, out);
                self.stream.is_open = true;
                self.stream.usage = MessageUsage::default();
                if let Some(message) = &message {
                    self.stream.begin_usage(message);
                }
            }
            "message_delta" => {
                let usage = parsed.usage.map(|raw| serde_json::from_str(raw.get()));
                if let Some(Ok(usage)) = usage {
                    self.stream.usage.observe(&usage);
                    self.stream.context_usage.set_used(self.stream.usage.tokens());
                }
            }
            "content_block_start" => {
                let block = parsed.content_block.map(|raw| serde_json::from_str(raw.get()));
                let Some(Ok(block)) = block else { return };
                self.open_slot(parsed.index, &block);
            }
            "message_stop" => {
                self.stream.end_message();
                let tail = serde_json::from_str::<StreamTail<'_>>(line);
                let abandoned = tail.ok().and_then(|tail| tail.abandoned_blocks.0);
                let Some(abandoned) = abandoned else { return };
                let id = abandoned.api_message_id.as_str();
                if id.is_none() || id == self.stream.message.as_deref() {
                    let from = abandoned.from_block_index.get().unwrap_or(0);
                    self.stream.abandon(from, turn, out);
                }
            }
            _ => {}
        }
    }

    fn open_slot(&mut self, index: Option<u32>, block: &CliBlock<'_>) {
        match (block.kind.as_str(), block.id.as_str()) {
            (Some("text"), _) => {
                self.stream.push_text(index, TextChannel::Answer);
            }
            (Some("thinking"), _) => {
                self.stream.push_text(index, TextChannel::Reasoning);
            }
            (_, Some(id)) => {
                let content = SlotContent::Tool(ToolId::new(id));
                self.stream.slots.push(BlockSlot { index, content });
            }
            _ => {}
        }
    }
}
