//! ACP, the Agent Client Protocol, as an agent over stdio: what `angelia acp` is to an editor.
//!
//! Pure:
//! - [`update`]: the events of a turn become `session/update`, spelled in `shown`; [`tool`]: what
//!   a tool call looks like.
//! - `content`: a prompt becomes the input of a turn.
//! - `permission`, `question`, `form`: an approval becomes a request to the editor, and its answer a decision.
//! - `ending`: how a turn ended becomes the answer to its prompt; `meter`: how full the context is.
//! - `options`: modes and models; `servers`: the editor's MCP servers; `errors`: what failed.
//!
//! With the engine:
//! - `connection`: one editor: what it is told and asked; `dispatch`: its requests, one by one;
//!   `greeting`: what it is told first.
//! - `sessions`: they are begun, loaded, forked, listed; `replay`: what was said in them.
//! - `prompt`: a turn from its submission to its answer; `asking`: who waits for the editor's answer.
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
