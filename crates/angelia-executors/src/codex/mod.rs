//! Codex, driven through its app-server: the vendor's own program, unmodified, with its own login.
//!
//! - `locate`, `probe`: where the program is, how old, logged in or not.
//! - `launch`, `mcp`, `calls`: a specification becomes variables, arguments and settings. Pure.
//! - `server`, `servers`: one process for many threads, and all of them.
//! - `thread`, `agent`, `turn`: an open thread and its turns; `leash`, `leftovers`: what it leaves.
//! - `executor`: all of it behind the port.
//! - [`settings`]: the user's own configuration of the program, edited.
//! - [`protocol`]: the spellings of both directions; [`translate`]: what it says as events. Pure.
//! - `approval`, `failure`, `patch`, `shell`, `tool`, `usage`: parts of the translation.

mod agent;
mod approval;
mod calls;
mod executor;
mod failure;
mod launch;
mod leash;
mod leftovers;
mod locate;
mod mcp;
mod patch;
mod probe;
pub mod protocol;
mod server;
mod servers;
pub mod settings;
mod shell;
mod thread;
mod tool;
pub mod translate;
mod turn;
mod usage;

use std::sync::Arc;

use angelia_core::ports::Executor;

use crate::Registration;

pub const REGISTRATION: Registration = Registration {
    name: executor::NAME,
    about: "Codex, with the login it has on this machine",
    model_ids: crate::ModelIds { bare: &["gpt-"], agent_words: &[], listed: &["default"] },
    build: |host| Arc::new(executor::Codex::new(host)) as Arc<dyn Executor>,
};
