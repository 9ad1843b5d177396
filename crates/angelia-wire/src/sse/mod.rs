//! Server-sent events as the WHATWG HTML standard defines them (§9.2): [`SseEncoder`] and
//! [`SseDecoder`].

mod decode;
mod encode;

pub use decode::{EventTooLong, SseDecoder, SseEvent};
pub use encode::SseEncoder;
