//! The channel `discord:CHANNEL[#THREAD]`: the gateway brings what people write and press, the REST API takes what
//! we send. The gateway has no acknowledgement; the place in its session is the cursor, stored with every event, and
//! a later connection goes on from there.
//!
//! - [`Discord`]: the adapter; `gateway`: its connection; `writing`: what it sends.
//! - `session`: the life of one connection to the gateway. Pure.
//! - `decode`: dispatches as events, read by `payload`. Pure.
//! - `rest`: one request of the REST API, and what its error means; `buckets`: its limits. The latter is pure.
//! - [`to_markdown`]: formatted text in the Markdown of Discord. Pure.

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
