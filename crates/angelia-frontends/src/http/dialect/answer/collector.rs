//! Collects chunks into a complete answer: for requests without streaming, and for the message that
//! the caller will send back as history.

use std::sync::Arc;

use angelia_core::model::{Content, HistoryMessage, MessagePart, RawJson, Role};
use serde_json::value::RawValue;

use super::{
    AnswerBlock, AnswerChunk, AnswerEnd, AnswerHeader, BlockKind, CompleteAnswer, ParagraphJoiner,
};

/// The chunks of one answer so far.
#[derive(Debug, Default)]
pub(super) struct AnswerCollector {
    header: Option<AnswerHeader>,
    blocks: Vec<AnswerBlock>,
    open: Option<(BlockKind, String)>,
    end: Option<AnswerEnd>,
}

impl AnswerCollector {
    pub(super) fn push(&mut self, chunk: &AnswerChunk) {
        match chunk {
            AnswerChunk::Start(header) => self.header = Some(header.clone()),
            AnswerChunk::Open(block) => self.open = Some((block.clone(), String::new())),
            AnswerChunk::More(text) => {
                if let Some((_, filled)) = &mut self.open {
                    filled.push_str(text);
                }
            }
            AnswerChunk::Close => {
                if let Some((block, text)) = self.open.take() {
                    self.blocks.push(complete_block(block, text));
                }
            }
            AnswerChunk::End(end) => self.end = Some(end.clone()),
        }
    }

    /// Returns the complete answer, or `None` if it never started or has not ended.
    pub(super) fn into_complete(self) -> Option<CompleteAnswer> {
        Some(CompleteAnswer { header: self.header?, blocks: self.blocks, end: self.end? })
    }

    pub(super) fn blocks(&self) -> &[AnswerBlock] {
        &self.blocks
    }

    /// Returns the answer as a message of the conversation, in each form in which it may come back:
    /// clients, or we, join its texts with or without a blank line between them.
    pub(super) fn message_forms(&self) -> Vec<HistoryMessage> {
        let mut forms = vec![assistant_message(&self.blocks)];
        let texts = self.blocks.iter();
        let texts =
            texts.filter(|block| matches!(block, AnswerBlock::Text(text) if !text.is_empty()));
        if texts.count() > 1 {
            forms.push(assistant_message(&with_blank_lines(&self.blocks)));
        }
        forms
    }
}

fn with_blank_lines(blocks: &[AnswerBlock]) -> Vec<AnswerBlock> {
    let mut paragraphs = ParagraphJoiner::default();
    let spaced = blocks.iter().map(|block| match block {
        AnswerBlock::Text(text) => {
            paragraphs.start_block();
            AnswerBlock::Text(paragraphs.join_next(text).into())
        }
        other => other.clone(),
    });
    spaced.collect()
}

fn complete_block(block: BlockKind, text: String) -> AnswerBlock {
    match block {
        BlockKind::Text => AnswerBlock::Text(text.into()),
        BlockKind::Reasoning => AnswerBlock::Reasoning(text.into()),
        BlockKind::Call { id, name } => AnswerBlock::Call { id, name, input: raw(text) },
    }
}

/// Converts text to JSON. Executors report JSON; anything else becomes `null`.
fn raw(text: String) -> RawJson {
    match RawValue::from_string(text) {
        Ok(raw) => raw.into(),
        Err(_not_json) => RawValue::NULL.to_owned().into(),
    }
}

fn assistant_message(blocks: &[AnswerBlock]) -> HistoryMessage {
    let parts = blocks.iter().map(|block| match block {
        AnswerBlock::Text(text) => MessagePart::Content(Content::Text(Arc::clone(text))),
        AnswerBlock::Reasoning(text) => {
            MessagePart::Thinking { text: Arc::clone(text), signature: None }
        }
        AnswerBlock::Call { id, name, input } => MessagePart::ToolUse {
            id: id.clone(),
            name: Arc::clone(name),
            input: Arc::clone(input),
        },
    });
    HistoryMessage { role: Role::Assistant, parts: parts.collect() }
}
