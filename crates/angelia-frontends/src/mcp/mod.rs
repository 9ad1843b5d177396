//! Angelia's tools for MCP clients: delegate work to another profile, read sessions and approvals,
//! use the bus. No tool here touches a file or runs a command.
//!
//! - [`ToolBackend`]: the operations that the tools need from the surrounding program.
//! - `tools`: the tool definitions; [`arguments`]: their arguments.
//! - `server`: the protocol; `eof`: detects that the client has disconnected.
//! - `records`: sessions and approvals for the tools; [`lineage`]: the delegations between
//!   sessions, which determine the sessions that an agent may see and its nesting depth.

pub mod arguments;
mod backend;
mod eof;
pub mod lineage;
mod records;
mod server;
mod tools;

pub use self::{
    backend::{ProgressReporter, ToolBackend, ToolCallError, Visibility, VisibleRecords},
    server::serve,
};

/// The name under which agents know our server.
pub const SERVER_NAME: &str = "angelia";

/// Matches the names that agents give to our tools.
pub const OWN_TOOLS_PATTERN: &str = "mcp__angelia__*";
