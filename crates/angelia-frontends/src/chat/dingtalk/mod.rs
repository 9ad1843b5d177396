//! The channel `dingtalk:CONVERSATION` (a group) or `dingtalk:user:STAFF` (a person): a robot in Stream mode.
//! An event is stored before its frame is acknowledged.
//!
//! - [`DingTalk`]: the adapter; `connection`: its socket, over which events come.
//! - [`decode_frame`]: frames of the socket, their answers, and the events in them. Pure.
//! - `open_api`: one request of the platform, its access token, and what an error means.
//! - `session_webhook`: the free way to answer, as long as the platform keeps it open.
//! - `writing`: sends messages, each in a `form`, by the way that is open; `cards`: answers that grow, and buttons; `files`.

mod adapter;
mod cards;
mod connection;
mod decode;
mod files;
mod form;
mod frame;
mod open_api;
mod session_webhook;
mod title;
mod writing;

pub use adapter::{DingTalk, DingTalkError, DingTalkSecrets};
pub use decode::{DecodedEvent, decode_frame};
pub use frame::StreamFrame;
