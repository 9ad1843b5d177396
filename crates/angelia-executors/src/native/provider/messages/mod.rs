//! The Messages API.
//!
//! - `wire`: its JSON types, both directions.
//! - `encode`: a conversation as the body of a request.
//! - `decode`: the frames of an answer as events.

mod decode;
mod encode;
mod wire;

pub use decode::MessagesDecoder;
pub(super) use encode::{encode_head, push_message};
pub(super) use wire::CacheMark;
