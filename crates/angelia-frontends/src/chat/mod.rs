//! Chats: people talk to agents on the platforms that they already use.
//!
//! - [`ChatHost`] in `host`: receives events and runs turns for them.
//! - [`DeliveryQueue`]: records a text in the ledger, then delivers it to a channel with retries.
//! - [`dingtalk`]: the channel `dingtalk`, over a WebSocket.
//! - [`formatting`]: Markdown as formatted text, cut into messages. Pure.
//! - [`discord`]: the channel `discord`, over its gateway.
//! - [`feishu`]: the channel `feishu`, over a WebSocket; it also serves Lark.
//! - [`matrix`]: the channel `matrix`, over the long poll of a homeserver.
//! - [`mattermost`]: the channel `mattermost`, over a WebSocket of a server.
//! - [`program`]: a channel whose adapter is the owner's own program.
//! - [`slack`]: the channel `slack`, over Socket Mode.
//! - [`telegram`]: the channel `telegram`, over long polling.
//! - [`wecom`]: the channel `wecom`, over a WebSocket.
//! - [`webhook`]: a channel that sends signed HTTP requests to the owner's own program.
//! - `bearer_api`: requests to a self-hosted server; `reaction_choices`: buttons for platforms without buttons.
//! - `send_budget`: send rates; `platform_http`, `web_socket`: requests and connections with credentials;
//!   `access_token`: an app's token; `multipart`: forms with files; `outgoing_file`: reads a file that is to be
//!   sent.

mod access_token;
mod bearer_api;
mod delivery_parts;
mod delivery_queue;
pub mod dingtalk;
pub mod discord;
pub mod feishu;
pub mod formatting;
mod host;
pub mod matrix;
pub mod mattermost;
mod multipart;
mod outgoing_file;
mod platform_http;
pub mod program;
mod reaction_choices;
mod send_budget;
pub mod slack;
pub mod telegram;
mod web_socket;
pub mod webhook;
pub mod wecom;

pub use delivery_queue::{
    DeliveryError, DeliveryQueue, DeliveryQueueParts, DeliveryRequest, PendingDelivery, RetryPolicy,
};
pub use host::{
    BusyPolicy, ChannelSettings, ChannelStatus, ChatHost, ChatHostParts, ChatPlace,
    ConnectionState, EVERY_GROUP, PAIRING_LIFETIME,
};
pub use platform_http::AddressProblem;
