//! The channel `dingtalk:CONVERSATION` (a group) or `dingtalk:user:STAFF` (a person): a robot in Stream mode.
//! Every event is stored before its frame is acknowledged.
//!
//! - [`DingTalk`]: the adapter; `connection`: the socket that events arrive on.
//! - [`decode_frame`]: frames of the socket, their acknowledgements, and their events. Pure.
//! - `open_api`: one API request, the access token, and the meaning of errors.
//! - `session_webhook`: answers without a quota, for as long as the platform allows it.
//! - `writing`: sends messages, each in a `form`, by webhook or API; `cards`: growing answers, and buttons;
//!   `files`.

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
