//! Chats: people talk with agents where they already are.
//!
//! - [`ChatHost`] in `host`: receives events, and runs turns for them.
//! - [`DeliveryQueue`]: records a text in the ledger, then delivers it to a channel with retries.
//! - [`formatting`]: Markdown as formatted text, cut into messages. Pure.
//! - [`telegram`]: the channel `telegram`, over long polling.
//! - [`webhook`]: the channel that sends signed HTTP requests to a program of the owner.
//! - `send_budget`: how much may be sent in which time; `platform_http`: requests with credentials.

mod delivery_parts;
mod delivery_queue;
pub mod formatting;
mod host;
mod platform_http;
mod send_budget;
pub mod telegram;
pub mod webhook;

pub use delivery_queue::{
    DeliveryError, DeliveryQueue, DeliveryQueueParts, DeliveryRequest, PendingDelivery, RetryPolicy,
};
pub use host::{
    BusyPolicy, ChannelSettings, ChannelStatus, ChatHost, ChatHostParts, ChatPlace,
    ConnectionState, PAIRING_LIFETIME,
};
pub use platform_http::AddressProblem;
