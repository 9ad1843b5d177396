//! Delegation: an agent passes work to another profile.
//!
//! - [`Privileges`]: the rights of a profile, and whether they exceed those of another profile.
//! - [`OwnMcpServer`]: our own MCP server, added to the agents that can use it.
//! - [`policy`]: decides which work a session may delegate; [`HomeAgents`], [`HomeDelegation`]: the
//!   same for the daemon, which identifies the agents that call it.
//! - [`DelegationDesk`]: runs a turn with another profile; `follow`: follows it to its end;
//!   [`EngineDelegation`]: the same for the built-in loop, in the process of its engine.
//! - [`ProcessOrigin`]: the agent that started this process; [`DelegatingSession`]: the session
//!   that delegates, and what is left of its budgets.

mod caller;
mod engine_delegation;
mod follow;
mod handed_on_turn;
mod home_agents;
mod own_mcp_server;
pub(crate) mod policy;
mod privileges;
mod process_origin;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    caller::DelegatingSession,
    engine_delegation::EngineDelegation,
    handed_on_turn::{DelegationDesk, Delegator, MAX_CONCURRENT_TURNS},
    home_agents::{HomeAgents, HomeDelegation},
    own_mcp_server::{BusProfiles, OwnMcpServer},
    privileges::Privileges,
    process_origin::ProcessOrigin,
};
