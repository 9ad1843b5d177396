//! The content of a turn so far: its answer, and the blocks and tool calls that are still open.

use std::sync::Arc;

use crate::model::{BlockId, EventKind, TextChannel, ToolId, ToolResult};

/// Result of a tool call that the turn left open.
pub(super) const UNFINISHED_TOOL_OUTPUT: &str = "the turn ended before the tool did";

#[derive(Debug, Default)]
pub struct TurnTranscript {
    blocks: Vec<TextBlock>,
    open_tools: Vec<ToolId>,
    has_called_tool: bool,
}

#[derive(Debug)]
struct TextBlock {
    id: BlockId,
    channel: TextChannel,
    text: String,
    is_complete: bool,
}

impl TurnTranscript {
    pub fn apply(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Delta { block, channel, text } => {
                self.block(*block, *channel).text.push_str(text);
            }
            // The complete block replaces its deltas.
            EventKind::Block { block, channel, text } => {
                let block = self.block(*block, *channel);
                block.text.clear();
                block.text.push_str(text);
                block.is_complete = true;
            }
            EventKind::ToolCall(call) => {
                self.open_tools.push(call.id.clone());
                self.has_called_tool = true;
            }
            EventKind::ToolResult(result) => self.open_tools.retain(|id| *id != result.id),
            _ => {}
        }
    }

    /// Whether the turn has called any tool.
    pub(super) const fn has_called_tool(&self) -> bool {
        self.has_called_tool
    }

    /// Whether the turn has any text or tool call to continue from.
    pub(super) fn has_output(&self) -> bool {
        self.has_called_tool || self.blocks.iter().any(|block| !block.text.is_empty())
    }

    /// Events that complete the open blocks and tool calls.
    pub fn closing_events(&self) -> Vec<EventKind> {
        let blocks =
            self.blocks.iter().filter(|block| !block.is_complete).map(|block| EventKind::Block {
                block: block.id,
                channel: block.channel,
                text: block.text.as_str().into(),
            });
        let tools = self.open_tools.iter().map(|id| {
            let output = UNFINISHED_TOOL_OUTPUT.into();
            EventKind::ToolResult(ToolResult { id: id.clone(), ok: false, output })
        });
        blocks.chain(tools).collect()
    }

    /// The answer: complete blocks, and the deltas of a block that is still open.
    pub fn answer(&self) -> Arc<str> {
        let mut text = String::new();
        for block in &self.blocks {
            if block.channel == TextChannel::Answer && !block.text.is_empty() {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&block.text);
            }
        }
        text.into()
    }

    fn block(&mut self, id: BlockId, channel: TextChannel) -> &mut TextBlock {
        // Blocks arrive in order, so the last one is nearly always the right one.
        let index = self.blocks.iter().rposition(|block| block.id == id).unwrap_or_else(|| {
            self.blocks.push(TextBlock { id, channel, text: String::new(), is_complete: false });
            self.blocks.len() - 1
        });
        &mut self.blocks[index]
    }
}
