//! The channel `feishu:CHAT[#ROOT]`: Feishu, or Lark through `base_url`, over one WebSocket. Every event is
//! stored before its frame goes back as an acknowledgement. All our messages are cards, so that they can be
//! edited.
//!
//! - [`Feishu`]: the adapter; `connection`: the WebSocket, its acknowledgements and signs of life.
//! - `open_api`: one request with the app's token, and the meaning of its errors.
//! - [`FeishuFrame`], and `parts`: the frames of the WebSocket, and events that span several frames. Pure.
//! - `decode`: decodes events into ours; `event` and `content`: their JSON. Pure.
//! - [`to_markdown`] and `card`: formatted text and buttons as a card. Pure.
//! - `writing`: messages, edits and files; `streaming`: a growing card.
//! - `lookups`: information that events lack; `setup_check`: what the owner may have forgotten.

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
