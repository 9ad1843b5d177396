//! Our own loop through the program: with a scripted model, and with a real one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod delegation;
#[path = "../cli/http.rs"]
#[expect(dead_code, reason = "shared with the tests of the commands")]
mod http;
mod long_conversation;
#[path = "../cli/machine.rs"]
#[expect(dead_code, reason = "shared with the tests of the commands")]
mod machine;
mod mcp_servers;
mod memory;
mod provider_config;
mod real_model;
mod record;
mod review;
#[path = "../cli/transcript.rs"]
#[expect(dead_code, reason = "shared with the tests of the commands")]
mod transcript;
