//! Angelia's tools for MCP clients: hand work to another profile, look at sessions and approvals,
//! use the bus. No tool here touches a file or runs a command.
//!
//! - [`Desk`]: what the tools need of the program around them.
//! - `tools`: what is offered, and [`arguments`]: what may be said to it.
//! - `server`: the protocol, and `ending`: how we notice that the client has gone.
//! - `records`: sessions and approvals as tools show them; [`lineage`]: who began which session,
//!   and therefore what an agent may see and how deep it stands.

pub mod arguments;
mod desk;
mod ending;
pub mod lineage;
mod records;
mod server;
mod tools;

pub use self::{
    desk::{Answer, Delegate, Desk, Progress, Records, Refused, Sight},
    server::serve,
};

/// What agents know our server by.
pub const SERVER: &str = "angelia";

/// The names that agents give to its tools.
pub const OWN_TOOLS: &str = "mcp__angelia__*";
