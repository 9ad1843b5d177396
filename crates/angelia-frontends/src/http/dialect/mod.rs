//! What the model APIs have in common. A dialect (`anthropic`, `openai::chat`,
//! `openai::responses`) decodes its request into an [`Ask`] and encodes [`Piece`]s into its own
//! events, or a [`Whole`] into its own object; everything between is here, once.

mod ask;
mod piece;

pub use ask::{Ask, Output, Refused, ToolChoice};
pub use piece::{Begin, Block, End, Piece, Stop, Whole, WholeBlock};
