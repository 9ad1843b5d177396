//! The ways in: everything that turns what somebody outside says into turns of the engine, and
//! events of the engine into what they can read.
//!
//! - [`acp`]: an agent for editors that speak the Agent Client Protocol, over stdio.
//! - [`bridge`]: JSONL over stdin and stdout, for host applications.
//! - [`bus`]: the bus's socket, in the form that the clients of hermes-bus speak.
//! - [`bus_context`]: messages that become turns.
//! - [`bus_rules`]: what is done about messages that have arrived.
//! - [`chat`]: channels, where people read what agents say.
//! - [`event_json`]: an event as the outside sees it, one JSON object.
//! - [`http`]: `/api` and `/healthz`, over TCP and over the Unix socket of the home.
//! - [`mcp`]: tools for agents and other MCP clients.
//! - [`socket`]: who is at the other end of a Unix socket.
//! - [`stdio`]: lines over stdin and stdout.

pub mod acp;
pub mod bridge;
pub mod bus;
pub mod bus_context;
pub mod bus_rules;
pub mod chat;
pub mod event_json;
pub mod http;
pub mod mcp;
pub mod socket;
pub mod stdio;
