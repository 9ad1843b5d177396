//! The Chat Completions API.
//!
//! - `wire`: its JSON types, both directions.
//! - `encode`: a conversation as the body of a request.
//! - `decode`: the chunks of an answer as events.
//! - `calls`: puts tool calls together from their pieces.
//! - `details`: puts the details of reasoning together from their pieces.
//! - `think_tags`: separates thoughts that a model writes into its text.

mod calls;
mod decode;
mod details;
mod encode;
mod think_tags;
mod wire;

pub use decode::ChatDecoder;
pub(super) use encode::{ANSWER_NAME, effort_word, encode_head, push_message};
pub(super) use wire::{CachedTokens, ChoiceName, ChoiceWord, ToolFunction, tool_choice};
