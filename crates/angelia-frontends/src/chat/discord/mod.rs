//! The channel `discord:CHANNEL[#THREAD]`: messages and button presses arrive through the gateway, and answers
//! go through the REST API. The gateway has no acknowledgements. Instead, the position in its session is the
//! cursor: it is stored with every event, and a later connection resumes there.
//!
//! - [`Discord`]: the adapter; `gateway`: its connection; `writing`: sends messages.
//! - `session`: the protocol of one gateway connection. Pure.
//! - `decode`: decodes dispatches into events; `payload`: their JSON. Pure.
//! - `rest`: one REST request and the meaning of its errors; `buckets`: the rate limits. The latter is pure.
//! - [`to_markdown`]: writes formatted text as Discord's Markdown. Pure.

mod adapter;
mod buckets;
mod decode;
mod gateway;
mod markdown;
mod payload;
mod rest;
mod session;
mod writing;

pub use adapter::{Discord, DiscordError};
pub use decode::{Dispatch, decode_dispatch};
pub use markdown::to_markdown;
