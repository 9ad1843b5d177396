//! The channel `telegram:CHAT[#TOPIC]`: the Bot API by long polling. Every update is stored before
//! the next poll, which acknowledges it.
//!
//! - [`Telegram`]: the adapter; `writing`: sends messages.
//! - `bot_api`: one request to the Bot API, and the meaning of its errors.
//! - `decode`: decodes updates into events; `update`: their JSON. Pure.
//! - [`to_html`]: writes formatted text as Telegram's HTML. Pure.

mod adapter;
mod bot_api;
mod decode;
mod html;
mod update;
mod writing;

pub use adapter::{Telegram, TelegramError};
pub use decode::{BotIdentity, decode_update, decode_updates};
pub use html::to_html;
