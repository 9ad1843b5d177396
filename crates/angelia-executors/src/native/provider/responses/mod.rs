//! The Responses API, used without the provider's own storage.
//!
//! - `wire`: its JSON types, in both directions.
//! - `encode`: encodes a conversation as the body of a request.
//! - `decode`: decodes the frames of an answer into events.
//! - `items`: the items of an answer while they are being written.

mod decode;
mod encode;
mod items;
mod wire;

pub use decode::ResponsesDecoder;
pub(super) use encode::{encode_head, push_message};
