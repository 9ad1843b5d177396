//! A model's answer, independent of the dialect: the input of every encoder, in order.

use std::sync::Arc;

use angelia_core::model::{Failure, RawJson, SessionId, ToolId, TurnId, Usage};
use jiff::Timestamp;

/// One step of an answer. Blocks do not overlap: a block is opened, filled and closed before the
/// next one opens. The first chunk is always `Start`, the last always `End`.
#[derive(Clone, Debug)]
pub enum AnswerChunk {
    Start(AnswerHeader),
    Open(BlockKind),
    /// More content of the open block. Text for `BlockKind::Text` and `BlockKind::Reasoning`; JSON,
    /// whole or in pieces, for `BlockKind::Call`.
    More(Arc<str>),
    Close,
    End(AnswerEnd),
}

/// The identity of an answer. Once it is sent, the answer can no longer become an HTTP error.
#[derive(Clone, Debug)]
pub struct AnswerHeader {
    pub turn: TurnId,
    pub session: SessionId,
    /// The number of earlier answers in this turn. A turn spans several answers if the model calls
    /// the caller's tools.
    pub part: u32,
    /// The model id of the request.
    pub model: Arc<str>,
    /// The start time, for dialects that report it (`created`).
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    Text,
    Reasoning,
    /// A call of one of the caller's tools.
    Call {
        id: ToolId,
        name: Arc<str>,
    },
}

#[derive(Clone, Debug)]
pub struct AnswerEnd {
    pub stop: StopReason,
    /// The usage of this answer alone, not of its whole turn.
    pub usage: Usage,
    /// `completed`, `partial`, `interrupted`, `failed`, or `awaiting_tool_result`.
    pub status: &'static str,
}

/// Why an answer ended.
#[derive(Clone, Debug)]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The turn waits for the results of the caller's tools.
    Calls,
    /// A budget ended the turn; the text so far is usable.
    Partial,
    /// The answer reached `max_tokens`.
    MaxTokens,
    /// The answer reached this stop word of the caller.
    Word(Arc<str>),
    /// The model refused to answer.
    Refusal,
    /// The turn failed after part of the answer was sent, so the stream ends in order. The last
    /// text block already reports the failure; encoders only close the blocks that they have
    /// opened.
    Failed(Failure),
    Interrupted,
}

/// A complete answer, for requests without streaming.
#[derive(Clone, Debug)]
pub struct CompleteAnswer {
    pub header: AnswerHeader,
    pub blocks: Vec<AnswerBlock>,
    pub end: AnswerEnd,
}

#[derive(Clone, Debug)]
pub enum AnswerBlock {
    Text(Arc<str>),
    Reasoning(Arc<str>),
    Call { id: ToolId, name: Arc<str>, input: RawJson },
}
