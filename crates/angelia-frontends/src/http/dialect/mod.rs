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

mod answer;
mod ask;
mod canonical;
mod ceiling;
/// For the decoders of every dialect: images, and content that is carried as marked text.
pub mod content;
mod demands;
pub mod estimate;
mod gathered;
mod incoming;
/// For the decoders of every dialect: JSON parsing with errors that name the field.
pub mod json;
mod launch;
mod marks;
mod matching;
mod paragraphs;
mod piece;
mod recent;
mod repeats;
mod respond;
mod serve;
mod shown;
mod spoken;
mod stop_words;
mod target;
mod told;
mod viewer;

pub use ask::{Ask, Output, Refused, ToolChoice};
pub use paragraphs::Paragraphs;
pub use piece::{Begin, Block, End, Piece, Stop, Whole, WholeBlock};
pub use recent::Recent;
pub(super) use respond::refuse;
pub(super) use serve::{answer, serve};
pub use shown::{From as ShownFrom, Shown, Step, View};
pub use spoken::{Dialect, DialectError, Encoder, ErrorKind};
pub use stop_words::stop_words;
pub(super) use target::meant_by;
pub use target::{Family, ModelSettings};
pub(super) use told::{Told, answer as recorded};
