//! The `acp` executor: drives any agent that speaks the Agent Client Protocol (ACP). The agent is
//! the vendor's own unmodified program with its own login, started by the profile's `command`.
//!
//! - `launch`: checks a session specification and turns it into a command line.
//! - `connection`, `start`: start the agent and open a conversation.
//! - `agent`, `turn`: the running agent and its turns.
//! - [`client`]: executes the agent's requests to read and write files and to run programs.
//! - [`selftest`]: the setup for a scripted model.
//! - `executor`: implements the executor port.
//! - [`protocol`]: the JSON of both directions. [`translate`]: turns messages into events. Both are
//!   pure.
//! - `failure`: turns JSON-RPC errors into failures.
//!
//! Which requests need approval, by permission level (the engine decides on approvals):
//!
//! | level | the agent's permission requests | files we write for it | programs we run for it |
//! |---|---|---|---|
//! | `ask` | approval | approval | approval |
//! | `edit` | edits inside the folder are allowed | allowed | approval |
//! | `unattended` | allowed | allowed | allowed |
//!
//! Each agent decides whether it asks at all. If it offers a mode named `default`, we switch it to
//! that mode.

mod agent;
pub mod client;
mod connection;
mod executor;
mod failure;
mod launch;
pub mod protocol;
pub mod selftest;
mod start;
pub mod translate;
mod turn;

use std::sync::Arc;

use angelia_core::ports::Executor;

use crate::Registration;

pub const REGISTRATION: Registration = Registration {
    agent_files: &[".gemini", ".cursor", ".opencode"],
    name: executor::NAME,
    about: "any agent that speaks ACP, by its `command`",
    model_ids: crate::ModelIds {
        vendor_prefixes: &[],
        agent_aliases: &[],
        listed_models: &[],
        by_provider: false,
    },
    npm: None,
    selftest: Some(&selftest::AcpSelftest),
    build: |host| Arc::new(executor::AcpExecutor::new(host)) as Arc<dyn Executor>,
};
