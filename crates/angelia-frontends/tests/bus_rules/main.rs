//! Rules and channels: what a file says, what is done about a message, and how a text reaches its
//! channel.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod context;
mod courier;
mod file;
mod http;
mod live;
mod react;
mod stage;
mod webhook;
