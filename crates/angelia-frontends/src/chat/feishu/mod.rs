//! The channel `feishu:CHAT[#ROOT]`: Feishu, or Lark by its `base_url`, over one WebSocket. An event is stored
//! before its frame goes back as an acknowledgement. Every message of ours is a card, so that it can be edited.
//!
//! - [`Feishu`]: the adapter; `connection`: the WebSocket, its acknowledgements and signs of life.
//! - `open_api`: one request with the app's token, and what its error means.
//! - [`FeishuFrame`], and `parts`: the frames of the WebSocket, and events in several of them. Pure.
//! - `decode`: events as ours, read by `event` and `content`. Pure.
//! - [`to_markdown`] and `card`: formatted text and buttons as a card. Pure.
//! - `writing`: messages, edits and files; `streaming`: a card that grows.
//! - `lookups`: what an event does not say itself; `setup_check`: what the owner may have forgotten.

mod adapter;
mod card;
mod connection;
mod content;
mod decode;
mod event;
mod frame;
mod lookups;
mod markdown;
mod open_api;
mod parts;
mod setup_check;
mod streaming;
mod writing;

pub use adapter::{Feishu, FeishuError};
pub use decode::{BotIdentity, DecodedEvent, decode_payload};
pub use frame::FeishuFrame;
pub use markdown::to_markdown;
