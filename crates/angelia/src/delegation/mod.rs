//! Delegation: an agent hands work to another profile.
//!
//! - [`Privileges`]: what a profile may do, and whether that is more than another profile may do.
//! - [`OwnMcpServer`]: our own MCP server, added to the agents that can use it.
//! - [`policy`]: which work a session may hand on; [`HomeAgents`], [`HomeDelegation`]: the same for
//!   the daemon, which identifies agents that call it.
//! - [`ProcessOrigin`]: which agent started this process; [`DelegatingSession`]: the session that
//!   delegates, and what is left of its budgets.

mod caller;
mod home_agents;
mod own_mcp_server;
pub(crate) mod policy;
mod privileges;
mod process_origin;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    caller::DelegatingSession,
    home_agents::{HomeAgents, HomeDelegation},
    own_mcp_server::{BusProfiles, OwnMcpServer},
    privileges::Privileges,
    process_origin::ProcessOrigin,
};
