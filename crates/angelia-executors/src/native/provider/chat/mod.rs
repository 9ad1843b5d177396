//! The Chat Completions API.
//!
//! - `wire`: its JSON types, in both directions.
//! - `encode`: encodes a conversation as the body of a request.
//! - `decode`: decodes the chunks of an answer into events.
//! - `calls`: assembles tool calls from their pieces.
//! - `details`: assembles the details of reasoning from their pieces.
//! - `think_tags`: separates reasoning that a model writes into its text.

mod calls;
mod decode;
mod details;
mod encode;
mod think_tags;
mod wire;

pub use decode::ChatDecoder;
pub(super) use encode::{ANSWER_NAME, effort_word, encode_head, push_message};
pub(super) use wire::{CachedTokens, ChoiceName, ChoiceWord, ToolFunction, tool_choice};
