//! The part that the model APIs share. A dialect (`anthropic`, `openai::chat`, `openai::responses`)
//! decodes its request into a [`ModelRequest`], and encodes [`AnswerChunk`]s into its own stream
//! events or a [`CompleteAnswer`] into its own object. This module does everything in between.
//!
//! Start reading at `serve`, which takes a request through the four folders, in this order.
//!
//! - `request`: reads the caller's request: the decoded body with its headers, its conversation,
//!   the session specification of its model id, and the limits of its key.
//! - `matching`: chooses the turn that answers: the turn of a repeated request, a turn that waits
//!   for tool results, or a new turn of the session with this history.
//! - `answer`: turns the turn's events into chunks, and the chunks into a checked, recorded answer.
//! - `respond`: writes the chunks as an HTTP response in the caller's dialect.

mod answer;
mod matching;
mod request;
mod respond;
mod serve;

pub use answer::{
    AnswerBlock, AnswerChunk, AnswerEnd, AnswerHeader, AnswerProgress, AnswerProjector,
    AnswerStart, BlockKind, CompleteAnswer, ParagraphJoiner, ProjectorOptions, StopReason,
    estimate_tokens,
};
pub(super) use answer::{RecordedAnswer, load_recorded_answer};
pub use matching::RecentRequests;
pub use request::{
    InvalidRequest, LiveModels, ModelFamily, ModelRequest, ModelSettings, OutputFormat,
    check_stop_words, content, json,
};
pub(super) use request::{granted_mode, unknown_model_error};
pub use respond::{AnswerEncoder, Dialect};
pub(super) use respond::{error_response, json_response};
pub(super) use serve::serve;
