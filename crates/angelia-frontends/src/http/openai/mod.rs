//! OpenAI's two dialects: Chat Completions and Responses. The shared parts are here; the rest is in
//! the dialects' folders.
//!
//! - `conversation`: builds messages with real roles from the messages or items of a request.
//! - `contents`: the string or parts of a message; `tools`: tool definitions and choices.
//! - `schema`: the output format; `errors`: the error format and its table.
//! - [`chat`], [`responses`]: decoders and encoders, both pure.

pub mod chat;
mod contents;
mod conversation;
mod errors;
pub mod responses;
mod schema;
mod tools;

use angelia_core::model::Usage;

pub(super) use errors::OpenAiErrorBody as ErrorShape;
pub use errors::error_body;

/// An SSE comment, which clients of both dialects skip.
const KEEP_ALIVE_COMMENT: &[u8] = b": keep-alive\n\n";

/// Returns the prompt tokens as OpenAI counts them: everything that the model read, cached or not.
const fn prompt_tokens(usage: &Usage) -> u64 {
    usage
        .input_tokens
        .saturating_add(usage.cache_read_tokens)
        .saturating_add(usage.cache_write_tokens)
}
