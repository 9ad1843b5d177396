//! The channel `slack:CHANNEL[#THREAD]`: events over Socket Mode, everything else over the Web API. An
//! event is stored before its envelope is acknowledged.
//!
//! - [`Slack`]: the adapter; `connection`: its sockets, one of which is replaced before Slack closes it.
//! - `web_api`: one request of the Web API, and what its error means.
//! - `decode`: envelopes as events, read by `envelope` and `mrkdwn`. Pure.
//! - [`to_blocks`]: formatted text as blocks; [`StreamText`]: as the Markdown of a stream. Pure.
//! - `writing`: messages, edits, answers to presses; `streaming`: answers while they are written; `files`.

mod adapter;
mod blocks;
mod connection;
mod decode;
mod envelope;
mod files;
mod mrkdwn;
mod stream_text;
mod streaming;
mod web_api;
mod writing;

pub use adapter::{Slack, SlackError};
pub use blocks::to_blocks;
pub use decode::{SlackBot, decode_envelope};
pub use stream_text::StreamText;
