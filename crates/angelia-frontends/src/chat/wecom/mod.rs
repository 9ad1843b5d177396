//! The channel `wecom:USER` or `wecom:GROUP`: a WeCom AI bot over its long connection. Incoming and outgoing
//! messages share one WebSocket. A second connection of the same bot ends the first.
//!
//! - [`Wecom`]: the adapter; `session`: the socket, and the answers to our frames.
//! - [`BotFrame`]: a frame, and the meaning of its errors; [`decode_frame`]: decodes callbacks. Pure.
//! - `replies`: how long a message or a press can be answered. Pure.
//! - `card`: buttons; `crypto`: the content of files. Pure.
//! - `writing`: messages, streams and cards; `files`: uploads and downloads.

mod adapter;
mod card;
mod crypto;
mod decode;
mod files;
mod frame;
mod replies;
mod session;
mod writing;

pub use adapter::{Wecom, WecomError};
pub use decode::{Callback, decode_frame};
pub use frame::BotFrame;
pub use writing::to_markdown;
