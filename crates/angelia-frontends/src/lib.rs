//! The frontends. Each one turns external requests into turns of the engine, and the engine's
//! events into the format that its clients read.
//!
//! - [`acp`]: an agent for editors that speak the Agent Client Protocol, over stdio.
//! - [`bridge`]: JSONL over stdin and stdout, for host applications.
//! - [`bus`]: the bus socket, with the protocol that hermes-bus clients speak.
//! - [`bus_context`]: runs turns for bus messages.
//! - [`bus_rules`]: applies `bus-rules.yaml` to incoming messages.
//! - [`chat`]: chat platforms, where people talk to agents.
//! - `embedded_data`: bytes that clients embed as base64.
//! - [`event_json`]: the public JSON form of an event.
//! - [`hooks_in`]: signed webhooks that start turns.
//! - [`http`]: `/api`, `/v1` and `/healthz`, over TCP and over the Unix socket of the home.
//! - [`mcp`]: tools for agents and other MCP clients.
//! - [`schedules`]: runs turns at their times, and when files change.
//! - [`socket`]: identifies the process at the other end of a local connection.
//! - [`stdio`]: lines over stdin and stdout.
//! - [`turn_service`]: one interface to turns, in this process or in the daemon.
//! - `unattended_turn`: shared code for turns without a waiting client, such as those of messages
//!   and schedules.

pub mod acp;
pub mod bridge;
pub mod bus;
pub mod bus_context;
pub mod bus_rules;
pub mod chat;
mod embedded_data;
pub mod event_json;
pub mod hooks_in;
pub mod http;
pub mod mcp;
pub mod schedules;
pub mod socket;
pub mod stdio;
pub mod turn_service;
mod unattended_turn;
