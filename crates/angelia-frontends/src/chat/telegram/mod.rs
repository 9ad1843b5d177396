//! The channel `telegram:CHAT[#TOPIC]`: the Bot API over long polling. An update is stored before the
//! next poll, which acknowledges it.
//!
//! - [`Telegram`]: the adapter; `writing`: what it sends.
//! - `bot_api`: one request of the Bot API, and what its error means.
//! - `decode`: updates as events, read by `update`. Pure.
//! - [`to_html`]: formatted text in the HTML that Telegram takes. Pure.

mod adapter;
mod bot_api;
mod decode;
mod html;
mod update;
mod writing;

pub use adapter::{Telegram, TelegramError};
pub use decode::{BotIdentity, decode_update, decode_updates};
pub use html::to_html;
