//! Collects chunks into a complete answer: for requests without streaming, and for the message that
//! the caller will send back as history.

use std::sync::Arc;

use angelia_core::model::{Content, Message, Part, RawJson, Role};
use serde_json::value::RawValue;

use super::{Begin, Block, End, Paragraphs, Piece, Whole, WholeBlock};

/// The chunks of one answer so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    begin: Option<Begin>,
    blocks: Vec<WholeBlock>,
    open: Option<(Block, String)>,
    end: Option<End>,
}

impl Gathered {
    pub(super) fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Begin(begin) => self.begin = Some(begin.clone()),
            Piece::Open(block) => self.open = Some((block.clone(), String::new())),
            Piece::More(text) => {
                if let Some((_, filled)) = &mut self.open {
                    filled.push_str(text);
                }
            }
            Piece::Close => {
                if let Some((block, text)) = self.open.take() {
                    self.blocks.push(whole_block(block, text));
                }
            }
            Piece::End(end) => self.end = Some(end.clone()),
        }
    }

    /// Returns the complete answer; `None` if it never started or has not ended.
    pub(super) fn whole(self) -> Option<Whole> {
        Some(Whole { begin: self.begin?, blocks: self.blocks, end: self.end? })
    }

    pub(super) fn blocks(&self) -> &[WholeBlock] {
        &self.blocks
    }

    /// Returns the answer as a message of the conversation, in each form in which it may come back:
    /// clients, or we, join its texts with a blank line between them, or without.
    pub(super) fn messages(&self) -> Vec<Message> {
        let mut forms = vec![message(&self.blocks)];
        let texts = self.blocks.iter();
        let texts =
            texts.filter(|block| matches!(block, WholeBlock::Text(text) if !text.is_empty()));
        if texts.count() > 1 {
            forms.push(message(&spaced(&self.blocks)));
        }
        forms
    }
}

fn spaced(blocks: &[WholeBlock]) -> Vec<WholeBlock> {
    let mut paragraphs = Paragraphs::default();
    let spaced = blocks.iter().map(|block| match block {
        WholeBlock::Text(text) => {
            paragraphs.begin();
            WholeBlock::Text(paragraphs.next(text).into())
        }
        other => other.clone(),
    });
    spaced.collect()
}

fn whole_block(block: Block, text: String) -> WholeBlock {
    match block {
        Block::Text => WholeBlock::Text(text.into()),
        Block::Reasoning => WholeBlock::Reasoning(text.into()),
        Block::Call { id, name } => WholeBlock::Call { id, name, input: raw(text) },
    }
}

/// Executors report JSON; anything else becomes `null`.
fn raw(text: String) -> RawJson {
    match RawValue::from_string(text) {
        Ok(raw) => raw.into(),
        Err(_not_json) => RawValue::NULL.to_owned().into(),
    }
}

pub(super) fn message(blocks: &[WholeBlock]) -> Message {
    let parts = blocks.iter().map(|block| match block {
        WholeBlock::Text(text) => Part::Content(Content::Text(Arc::clone(text))),
        WholeBlock::Reasoning(text) => Part::Thinking { text: Arc::clone(text), signature: None },
        WholeBlock::Call { id, name, input } => {
            Part::ToolUse { id: id.clone(), name: Arc::clone(name), input: Arc::clone(input) }
        }
    });
    Message { role: Role::Assistant, parts: parts.collect() }
}
