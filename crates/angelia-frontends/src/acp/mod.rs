//! The ACP frontend: `angelia acp` is an agent for editors that speak the Agent Client Protocol
//! over stdio.
//!
//! Pure:
//! - [`update`]: the events of a turn become `session/update` lines, with the JSON types of
//!   `update_json`. [`tool`]: how a tool call is displayed.
//! - `content`: a prompt becomes the input of a turn.
//! - `permission`, `form`: an approval becomes a request to the editor, and its answer a decision.
//! - `prompt_response`: the outcome of a turn becomes the answer to its prompt.
//! - `usage_update`: how full the context is, and what the session has cost.
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
//! `docs/acp.md` says what the editor gets, `docs/design/0007-acp.md` why.

mod asking;
mod connection;
mod content;
mod dispatch;
mod ending;
mod errors;
mod form;
mod greeting;
mod meter;
mod options;
mod permission;
mod prompt;
mod question;
mod replay;
mod servers;
mod sessions;
mod shown;
pub mod tool;
pub mod update;

pub use self::{
    connection::{ExecutorModels, Settings},
    dispatch::{Ended, serve},
    meter::Spent,
    update::{Features, Updates},
};
