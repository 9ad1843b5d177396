//! A turn's answer, independent of the dialect: the turn's events become chunks, and the chunks become a
//! checked and recorded answer.
//!
//! - [`AnswerChunk`], [`CompleteAnswer`]: the input of every encoder. [`ParagraphJoiner`]: a helper
//!   of the encoders.
//! - [`AnswerProjector`]: events to chunks (pure), with [`AnswerProgress`], `stop_words`, `estimate` and
//!   `fenced_json`.
//! - [`AnswerConstraint`]: the required form of the answer; `collector`: chunks to a complete
//!   answer.
//! - [`LiveAnswer`]: one answer in progress; `viewer`: notices clients that disconnect early.
//! - [`load_recorded_answer`]: rebuilds an earlier answer from the record.

mod chunk;
mod collector;
mod constraint;
mod estimate;
mod fenced_json;
mod live_answer;
mod paragraphs;
mod progress;
mod projector;
mod recorded_answer;
mod stop_words;
mod viewer;

pub use chunk::{
    AnswerBlock, AnswerChunk, AnswerEnd, AnswerHeader, BlockKind, CompleteAnswer, StopReason,
};
pub(super) use constraint::AnswerConstraint;
pub use estimate::estimate_tokens;
pub(super) use live_answer::{LiveAnswer, NextChunks};
pub use paragraphs::ParagraphJoiner;
pub use progress::AnswerProgress;
pub use projector::{AnswerProjector, AnswerStart, ProjectorOptions};
pub(in crate::http) use recorded_answer::{RecordedAnswer, load_recorded_answer};
