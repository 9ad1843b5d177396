//! The Responses API, used without the provider's own storage.
//!
//! - `wire`: its JSON types, both directions.
//! - `encode`: a conversation as the body of a request.
//! - `decode`: the frames of an answer as events.
//! - `items`: the items of an answer while they are written.

mod decode;
mod encode;
mod items;
mod wire;

pub use decode::ResponsesDecoder;
pub(super) use encode::{encode_head, push_message};
