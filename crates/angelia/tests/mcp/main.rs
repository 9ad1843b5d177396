//! `angelia mcp`: the official MCP client, real agents and plain bytes against it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../cli/agents.rs"]
mod agents;
mod bus;
mod bytes;
mod client;
mod config;
mod delegation;
mod leaving;
mod marks;
mod real_agents;
mod sessions;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/stage.rs"]
mod stage;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
