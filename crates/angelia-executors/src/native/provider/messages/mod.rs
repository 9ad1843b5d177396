//! The Messages API.
//!
//! - `wire`: its JSON types, in both directions.
//! - `encode`: encodes a conversation as the body of a request.
//! - `decode`: decodes the frames of an answer into events.

mod decode;
mod encode;
mod wire;

pub use decode::MessagesDecoder;
pub(super) use encode::{encode_head, push_message};
pub(super) use wire::CacheMark;
