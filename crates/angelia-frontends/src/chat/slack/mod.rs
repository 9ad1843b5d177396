//! The channel `slack:CHANNEL[#THREAD]`: events over Socket Mode, everything else over the Web API. Every
//! event is stored before its envelope is acknowledged.
//!
//! - [`Slack`]: the adapter; `connection`: its sockets, each replaced before Slack closes it.
//! - `web_api`: one request to the Web API, and the meaning of its errors.
//! - `decode`: decodes envelopes into events; `envelope` and `mrkdwn`: their JSON and text. Pure.
//! - [`to_blocks`]: formatted text as blocks; [`StreamText`]: as the Markdown of a stream. Pure.
//! - `writing`: messages, edits, answers to presses; `streaming`: answers in progress; `files`.

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
