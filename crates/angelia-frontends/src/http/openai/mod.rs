//! OpenAI's two dialects: Chat Completions and Responses. What both read and say alike is here;
//! the rest is in their folders.
//!
//! - `conversation`: messages with true roles, from what the dialects call messages or items.
//! - `contents`: strings and parts of a message; `tools`: definitions and choices.
//! - `schema`: the form an answer must have; `errors`: the one shape of errors, and its table.
//! - [`chat`], [`responses`]: decode and encode, both pure.

pub mod chat;
mod contents;
mod conversation;
mod errors;
pub mod responses;
mod schema;
mod tools;

use angelia_core::model::Usage;

pub(super) use errors::Body as ErrorShape;
pub use errors::error_body;

/// A comment: clients of both dialects skip it.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Here the prompt is everything that was read, from the cache or not.
const fn prompt_tokens(usage: &Usage) -> u64 {
    usage
        .input_tokens
        .saturating_add(usage.cache_read_tokens)
        .saturating_add(usage.cache_write_tokens)
}
