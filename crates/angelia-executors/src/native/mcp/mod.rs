//! The MCP servers of a session: `mcp_servers` of its profile and, in a trusted project, those of its
//! `.mcp.json`. The design is in `docs/design/0033-mcp-client.md`.
//!
//! ```text
//!  definition ─► connection ── initialize, list ─► tool list, frozen ─► definitions of every request
//!     call ─► plan: order ─► authority ─► server ── tools/call ─► result: text, images, within limits
//! ```
//!
//! - [`definition`]: what the configuration says about a server; `login_settings`: its `oauth`. Pure.
//! - [`project_file`]: the servers that a project brings.
//! - [`names`]: the names under which a model and the permissions know the tools. Pure.
//! - `connection`: one running server: its process or its HTTP connection, and the protocol.
//! - `login_client`: the HTTP client, which adds the tokens of the owner's login.
//! - [`check`]: tries servers without a session, for `doctor` and for logins.
//! - `server`: one server of a session; starts it again when it has ended.
//! - `servers`: all servers of a session, and their frozen list of tools.
//! - `call`: one call of a tool, as the loop runs it.
//! - `result`: what the model sees of an answer. Pure, but for the file of a long text.
//! - `search`: finds tools by words, where there are too many for every request. Pure.

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
