//! The content of a turn so far: its answer, and the blocks, tool calls and approvals that are still
//! open.

use std::sync::Arc;

use super::approvals::resolution_event;
use crate::{
    model::{ApprovalId, BlockId, EventKind, Seq, TextChannel, ToolId, ToolResult, Verdict},
    ports::OpenText,
};

/// Result of a tool call that was still open when the turn ended.
pub(super) const UNFINISHED_TOOL_OUTPUT: &str = "the turn ended before the tool did";

#[derive(Debug, Default)]
pub struct TurnTranscript {
    blocks: Vec<TextBlock>,
    open_tools: Vec<ToolId>,
    pending_approvals: Vec<ApprovalId>,
    has_called_tool: bool,
}

#[derive(Debug)]
struct TextBlock {
    id: BlockId,
    channel: TextChannel,
    /// The deltas so far, while the block is open.
    open_text: String,
    /// The text of the complete block, shared with its event.
    complete_text: Option<Arc<str>>,
    /// Number of bytes that are saved in case this process dies.
    saved: usize,
    /// Number of the last event of this block.
    last_seq: Seq,
}

impl TextBlock {
    fn text(&self) -> &str {
        self.complete_text.as_deref().unwrap_or(&self.open_text)
    }

    const fn is_complete(&self) -> bool {
        self.complete_text.is_some()
    }

    const fn is_unsaved(&self) -> bool {
        !self.is_complete() && self.open_text.len() > self.saved
    }
}

impl TurnTranscript {
    pub fn apply(&mut self, seq: Seq, kind: &EventKind) {
        match kind {
            EventKind::Delta { block, channel, text } => {
                let block = self.block(*block, *channel);
                match &mut block.complete_text {
                    None => block.open_text.push_str(text),
                    Some(complete) => *complete = format!("{complete}{text}").into(),
                }
                block.last_seq = seq;
            }
            // The complete block replaces its deltas.
            EventKind::Block { block, channel, text } => {
                let block = self.block(*block, *channel);
                block.open_text = String::new();
                block.complete_text = Some(Arc::clone(text));
                block.last_seq = seq;
            }
            EventKind::ToolCall(call) => {
                self.open_tools.push(call.id.clone());
                self.has_called_tool = true;
            }
            EventKind::ToolResult(result) => self.open_tools.retain(|id| *id != result.id),
            EventKind::Approval(approval) => self.pending_approvals.push(approval.id),
            EventKind::Resolved(resolution) => {
                self.pending_approvals.retain(|id| *id != resolution.id);
            }
            _ => {}
        }
    }

    /// Returns whether an open block has unsaved text.
    pub(super) fn has_unsaved_text(&self) -> bool {
        self.blocks.iter().any(TextBlock::is_unsaved)
    }

    /// Returns the unsaved text of open blocks, and marks it as saved.
    pub(super) fn take_unsaved_text(&mut self) -> Vec<OpenText> {
        let unsaved = self.blocks.iter_mut().filter(|block| block.is_unsaved());
        unsaved
            .map(|block| OpenText {
                block: block.id,
                channel: block.channel,
                seq: block.last_seq,
                text: {
                    let saved = std::mem::replace(&mut block.saved, block.open_text.len());
                    block.open_text[saved..].into()
                },
            })
            .collect()
    }

    /// Returns whether the block exists and is incomplete.
    pub(super) fn is_open(&self, id: BlockId) -> bool {
        self.blocks.iter().rev().any(|block| block.id == id && !block.is_complete())
    }

    /// Adds the text of an open block that a killed process had saved.
    pub(super) fn restore(&mut self, piece: &OpenText) {
        let block = self.block(piece.block, piece.channel);
        if !block.is_complete() {
            block.open_text.push_str(&piece.text);
            block.saved = block.open_text.len();
            block.last_seq = piece.seq;
        }
    }

    /// Returns whether the turn has called any tool.
    pub(super) const fn has_called_tool(&self) -> bool {
        self.has_called_tool
    }

    /// Returns whether the turn has any text or tool call to continue from.
    pub(super) fn has_output(&self) -> bool {
        self.has_called_tool || self.blocks.iter().any(|block| !block.text().is_empty())
    }

    /// Returns events that complete the open blocks and tool calls, and deny the pending approvals.
    pub fn closing_events(&self, denied_by: &str) -> Vec<EventKind> {
        let blocks =
            self.blocks.iter().filter(|block| !block.is_complete()).map(|block| EventKind::Block {
                block: block.id,
                channel: block.channel,
                text: block.open_text.as_str().into(),
            });
        let tools = self.open_tools.iter().map(|id| {
            EventKind::ToolResult(ToolResult::new(id.clone(), false, UNFINISHED_TOOL_OUTPUT))
        });
        let approvals =
            self.pending_approvals.iter().map(|id| resolution_event(*id, Verdict::Deny, denied_by));
        blocks.chain(tools).chain(approvals).collect()
    }

    /// Returns the answer: complete blocks, and the deltas of a block that is still open.
    pub fn answer(&self) -> Arc<str> {
        let is_answer =
            |block: &&TextBlock| block.channel == TextChannel::Answer && !block.text().is_empty();
        let mut answers = self.blocks.iter().filter(is_answer);
        // Usually there is a single block, whose text need not be copied.
        if let (Some(TextBlock { complete_text: Some(text), .. }), None) =
            (answers.next(), answers.next())
        {
            return Arc::clone(text);
        }
        let mut text = String::new();
        for block in self.blocks.iter().filter(is_answer) {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(block.text());
        }
        text.into()
    }

    fn block(&mut self, id: BlockId, channel: TextChannel) -> &mut TextBlock {
        // Blocks arrive in order, so the last one is nearly always the right one.
        let index = self.blocks.iter().rposition(|block| block.id == id).unwrap_or_else(|| {
            self.blocks.push(TextBlock {
                id,
                channel,
                open_text: String::new(),
                complete_text: None,
                saved: 0,
                last_seq: 0,
            });
            self.blocks.len() - 1
        });
        &mut self.blocks[index]
    }
}
