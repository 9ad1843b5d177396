//! The part that the model APIs share. A dialect (`anthropic`, `openai::chat`, `openai::responses`)
//! decodes its request into a [`ModelRequest`], and encodes [`AnswerChunk`]s into its own stream
//! events or a [`CompleteAnswer`] into its own object. Everything in between is here, once.
//!
//! - `model_request`, `chunk`, `dialect_trait`: the types exchanged with the dialects. `content`,
//!   `json`, `estimate`, `stop_words`, `paragraphs`: helpers of the dialects.
//! - `target`: resolves a model id; `spend_limit`: limits the cost of a key; `launch`: builds the
//!   session to start.
//! - `request_hints`, `conversation`, `conversation_hash`, `matching`, `recorded_answer`: find the
//!   session and the turn of a request; `deduplication`, `recent_requests`: recognise a repeated
//!   request.
//! - `serve`: takes a request to its turn; `live_answer`: turns the events of the turn into chunks,
//!   with `projector` (pure), `constraint` and `collector`; `respond`: writes chunks as HTTP;
//!   `viewer`: notices clients that disconnect early.

mod chunk;
mod collector;
mod constraint;
/// For the decoders of every dialect: images, and content that is carried as marked text.
pub mod content;
mod conversation;
mod conversation_hash;
mod deduplication;
mod dialect_trait;
pub mod estimate;
/// For the decoders of every dialect: JSON parsing with errors that name the field.
pub mod json;
mod launch;
mod live_answer;
mod matching;
mod model_request;
mod paragraphs;
mod projector;
mod recent_requests;
mod recorded_answer;
mod request_hints;
mod respond;
mod serve;
mod spend_limit;
mod stop_words;
mod target;
mod viewer;

pub use chunk::{
    AnswerBlock, AnswerChunk, AnswerEnd, AnswerHeader, BlockKind, CompleteAnswer, StopReason,
};
pub use dialect_trait::{AnswerEncoder, Dialect, DialectError, ErrorKind};
pub use model_request::{InvalidRequest, ModelRequest, OutputFormat, ToolChoice};
pub use paragraphs::ParagraphJoiner;
pub use projector::{AnswerProgress, AnswerProjector, AnswerStart as ShownFrom, ProjectorOptions};
pub use recent_requests::RecentRequests;
pub(super) use recorded_answer::{RecordedAnswer, load_recorded_answer as recorded};
pub(super) use respond::error_response;
pub(super) use serve::{decode_and_serve, serve};
pub use stop_words::check_stop_words;
pub(super) use target::granted_mode;
pub use target::{ModelFamily, ModelSettings};
