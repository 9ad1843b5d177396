//! The ACP frontend: `angelia acp` is an agent for editors that speak the Agent Client Protocol
//! over stdio.
//!
//! Pure:
//! - [`update`]: the events of a turn become `session/update` lines, with the JSON types of
//!   `update_json`. [`tool`]: the display of a tool call. `unified_diff`: reads the diff of an
//!   approval.
//! - `content`: a prompt becomes the input of a turn.
//! - `permission`, `form`: an approval becomes a request to the editor, and its answer a decision.
//! - `prompt_response`: the outcome of a turn becomes the answer to its prompt.
//! - `usage_update`: how full the context is, and the cost of the session.
//! - `options`: modes and models. `mcp_servers`: the editor's MCP servers. `errors`: failures as
//!   JSON-RPC errors.
//!
//! With the engine:
//! - `connection`: the connection to one editor. `dispatch`: handles the editor's messages in
//!   order.
//! - `initialize`: the requests `initialize` and `authenticate`.
//! - `sessions`: creates, loads, forks, lists and deletes sessions. `replay`: replays a loaded one.
//! - `prompt`: runs a turn from its submission to its answer.
//! - `client_requests`: requests to the editor that wait for its answer. `question`: asks the
//!   agent's questions by form or one by one.
//!
//! `docs/acp.md` describes the editor's side, `docs/design/0007-acp.md` gives the reasons.

mod client_requests;
mod connection;
mod content;
mod dispatch;
mod errors;
mod form;
mod initialize;
mod mcp_servers;
mod options;
mod permission;
mod prompt;
mod prompt_response;
mod question;
mod replay;
mod sessions;
pub mod tool;
mod unified_diff;
pub mod update;
mod update_json;
mod usage_update;

pub use self::{
    connection::{AcpSettings, ExecutorModels},
    dispatch::{DisconnectReason, serve},
    update::{EditorFeatures, UpdateEncoder},
    usage_update::SessionCost,
};
