//! Any agent that speaks the Agent Client Protocol: the vendor's own program, unmodified, with its own
//! login, started by a command of the user's.
//!
//! - `launch`: what a specification means, and what is refused of it.
//! - `connection`, `start`: from there to an open conversation.
//! - `agent`, `turn`: the running agent and its turns; [`client`]: what it has done by us.
//! - `executor`: all of it behind the port.
//! - [`protocol`]: the spellings of both directions; [`translate`]: what it says as events. Pure.
//! - `failure`: errors as failures.
//!
//! What is asked, by permission level (what is asked ends in the engine):
//!
//! | | what the agent asks | files written by us | programs run by us |
//! |---|---|---|---|
//! | `ask` | asked | asked | asked |
//! | `edit` | edits inside the folder are allowed | allowed | asked |
//! | `unattended` | allowed | allowed | allowed |
//!
//! Whether an agent asks at all is its own decision; where it has a mode named `default`, it is put
//! into that one.

mod agent;
pub mod client;
mod connection;
mod executor;
mod failure;
mod launch;
pub mod protocol;
mod start;
pub mod translate;
mod turn;

use std::sync::Arc;

use angelia_core::ports::Executor;

use crate::Registration;

pub const REGISTRATION: Registration = Registration {
    name: executor::NAME,
    about: "any agent that speaks ACP, by its `command`",
    model_ids: crate::ModelIds { bare: &[], agent_words: &[], listed: &[] },
    build: |host| Arc::new(executor::Acp::new(host)) as Arc<dyn Executor>,
};
