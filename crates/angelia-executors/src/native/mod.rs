//! The `native` executor: our own loop on a provider's API, without a vendor's program. The design is
//! in `docs/design/0029-native-executor.md` and `0031-native-loop.md`.
//!
//! - `executor`, `agent`: implement the executor port; `session_setup`: what tools work with.
//! - `turn`: ask, stream, run the tools, ask again.
//! - `model_chain`: the model of a session and its fallbacks; `session_model`: one of them.
//! - [`compaction`]: what stays of a conversation that gets too long. Pure.
//! - [`record`]: the conversation, from the recorded events.
//! - `prompt`, [`instructions`], `prompt_notes`: what a model is told before the conversation.
//! - `knowledge`: what a session knows besides its conversation.
//!   [`skills`]: instructions for particular tasks; [`memory`]: notes from session to session.
//! - `session_prefix`: what every request of a session begins with, for its reviews.
//! - [`providers`]: the providers that are configured, with their keys, prices and windows.
//! - [`client`]: sends requests over HTTP.
//! - [`provider`]: the APIs of models: requests to bytes, and bytes to events. Pure.
//! - [`arguments`]: repairs the arguments and the names of tool calls. Pure.
//! - [`retry`]: what to do after a request has failed. Pure.
//! - [`answer_reader`]: reads one answer, within its clocks, and describes one that broke off.
//! - `request_dump`: the last request of a turn that failed, in a file, where the owner wants it.
//! - [`image_care`]: which images a model takes, and how one becomes smaller.
//! - [`ending`]: whether an answer is finished. Pure.
//! - [`text_calls`]: tool calls in the text of an answer. Pure.
//! - [`tools`]: what a model can do on this machine (`docs/design/0030-native-tools.md`).
//! - `notice_queue`: what tools and servers have to tell people.
//! - [`sandbox`]: the limits of the commands that a model runs.
//! - [`mcp`]: the MCP servers of a session and their tools (`docs/design/0033-mcp-client.md`).

mod agent;
pub mod answer_reader;
pub mod arguments;
pub mod client;
pub mod compaction;
pub mod ending;
mod executor;
pub mod image_care;
pub mod instructions;
mod knowledge;
pub mod mcp;
pub mod memory;
mod model_chain;
mod notice_queue;
mod prompt;
mod prompt_notes;
pub mod provider;
pub mod providers;
pub mod record;
mod request_dump;
pub mod retry;
pub mod sandbox;
mod session_model;
mod session_prefix;
mod session_setup;
pub mod skills;
pub mod text_calls;
pub mod tools;
mod turn;

use std::sync::Arc;

use angelia_core::ports::Executor;

use self::client::Transport;
use crate::{ExecutorHost, Registration};

/// Builds the executor on another transport than HTTP, for tests of its clocks.
pub fn executor_over(host: ExecutorHost, transport: Arc<dyn Transport>) -> Arc<dyn Executor> {
    Arc::new(executor::NativeExecutor::over(host, transport))
}

pub const REGISTRATION: Registration = Registration {
    agent_files: &[],
    name: executor::NAME,
    about: "our own loop on a model's API: `model: PROVIDER/MODEL`",
    model_ids: crate::ModelIds {
        vendor_prefixes: &[],
        agent_aliases: &[],
        listed_models: &[],
        by_provider: true,
    },
    npm: None,
    selftest: None,
    build: |host| Arc::new(executor::NativeExecutor::new(host)) as Arc<dyn Executor>,
};
