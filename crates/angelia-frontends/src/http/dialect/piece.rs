//! An answer of a model, in no dialect: what every encoder is given, in order.

use std::sync::Arc;

use angelia_core::model::{Failure, RawJson, SessionId, ToolId, TurnId, Usage};
use jiff::Timestamp;

/// One step of an answer. Blocks do not overlap: a block is opened, filled and closed before the
/// next one begins, and the first piece is always `Begin`, the last always `End`.
#[derive(Clone, Debug)]
pub enum Piece {
    Begin(Begin),
    Open(Block),
    /// More of the open block. Text for `Block::Text` and `Block::Reasoning`; JSON, whole or in
    /// pieces, for `Block::Call`.
    More(Arc<str>),
    Close,
    End(End),
}

/// An answer begins; nothing of it can be taken back any more.
#[derive(Clone, Debug)]
pub struct Begin {
    pub turn: TurnId,
    pub session: SessionId,
    /// How many answers of this turn came before: one turn spans the calls of a caller's tools.
    pub part: u32,
    /// The id the caller asked for.
    pub model: Arc<str>,
    /// When it began; for dialects that say so (`created`).
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    Text,
    Reasoning,
    /// The model calls one of the caller's tools.
    Call {
        id: ToolId,
        name: Arc<str>,
    },
}

#[derive(Clone, Debug)]
pub struct End {
    pub stop: Stop,
    /// Of this answer alone.
    pub usage: Usage,
    /// `completed`, `partial`, `interrupted`, `failed`, or `awaiting_tool_result`.
    pub status: &'static str,
}

/// Why an answer ended.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The model has said what it had to say.
    EndTurn,
    /// It waits for the results of the caller's tools.
    Calls,
    /// A budget ended it; what there is is usable.
    Partial,
    /// `max_tokens` ended it.
    MaxTokens,
    /// These words of the caller's did.
    Word(Arc<str>),
    /// The model would not.
    Refusal,
    /// It failed after something of it was shown: the stream ends cleanly. The last text block
    /// says so already, so encoders only end what they have begun.
    Failed(Failure),
    Interrupted,
}

/// A whole answer, for those who do not stream.
#[derive(Clone, Debug)]
pub struct Whole {
    pub begin: Begin,
    pub blocks: Vec<WholeBlock>,
    pub end: End,
}

#[derive(Clone, Debug)]
pub enum WholeBlock {
    Text(Arc<str>),
    Reasoning(Arc<str>),
    Call { id: ToolId, name: Arc<str>, input: RawJson },
}
