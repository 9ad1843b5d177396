//! The MCP servers of a session: those in `mcp_servers` of its profile and, in a trusted project,
//! those in its `.mcp.json`. The design is in `docs/design/0033-mcp-client.md`.
//!
//! ```text
//!  definition ─► connection ── initialize, list ─► tool list, frozen ─► definitions of every request
//!     call ─► plan: order ─► authority ─► server ── tools/call ─► result: text, images, within limits
//! ```
//!
//! - [`definition`]: what the configuration says about a server; `login_settings`: its `oauth`.
//!   Pure.
//! - [`project_file`]: the servers that a project defines.
//! - [`names`]: the names under which a model and the permissions know the tools. Pure.
//! - `connection`: a running server: its process or HTTP connection, and the protocol.
//! - `login_client`: the HTTP client, which adds the tokens of the owner's login.
//! - [`check`]: checks servers without a session, for `doctor` and for logins.
//! - `server`: a server of a session; restarts it when it has ended.
//! - `servers`: all servers of a session, and their frozen list of tools.
//! - `call`: a call of a tool, as the loop runs it.
//! - `result`: what the model sees of an answer. Pure, except for the file with a long text.
//! - `search`: finds tools by keywords, if there are too many to list in every request. Pure.

mod call;
pub mod check;
mod connection;
pub mod definition;
mod login_client;
mod login_settings;
pub mod names;
pub mod project_file;
mod result;
mod search;
mod server;
mod servers;

pub(super) use servers::{McpServers, ServerPlace};
