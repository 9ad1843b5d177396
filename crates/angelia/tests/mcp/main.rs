//! `angelia mcp`: the official MCP client, real agents and plain bytes against it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../cli/agent_processes.rs"]
mod agent_processes;
mod bus;
mod bytes;
mod client;
mod config;
mod delegation;
mod leaving;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod marks;
mod real_agents;
mod sessions;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;
