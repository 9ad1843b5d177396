//! What the model APIs have in common. A dialect (`anthropic`, `openai::chat`,
//! `openai::responses`) decodes its request into an [`Ask`] and encodes [`Piece`]s into its own
//! events, or a [`Whole`] into its own object; everything between is here, once.
//!
//! - `ask`, `piece`, `spoken`: the words between here and the dialects. `content`, `json`,
//!   `estimate`, `stop_words`, `paragraphs`: what they share.
//! - `target`: what a model id means; `ceiling`: what a key may cost; `launch`: what is started.
//! - `marks`, `incoming`, `canonical`, `matching`, `told`: which session and which turn; `repeats`,
//!   `recent`: whether it was asked before.
//! - `serve`: a request to its turn; `answer`: the turn to pieces, by way of `shown` (pure),
//!   `demands` and `gathered`; `respond`: pieces to HTTP; `viewer`: who leaves early.

mod answer;
mod ask;
mod canonical;
mod ceiling;
/// For the decoders of every dialect: images, and what is carried as marked text.
pub mod content;
mod demands;
pub mod estimate;
mod gathered;
mod incoming;
/// For the decoders of every dialect: JSON whose mistakes are named by their place.
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
