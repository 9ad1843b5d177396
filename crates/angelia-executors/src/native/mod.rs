//! The `native` executor: our own loop on a provider's API, without a vendor's program. The design
//! is in `docs/design/0029-native-executor.md` and `0031-native-loop.md`.
//!
//! - `executor`, `agent`: implement the executor port; `session_setup`: opens the tools of a
//!   session.
//! - `turn`: ask, stream, run the tools, ask again.
//! - `model_chain`: the model of a session and its fallbacks; `session_model`: one of them.
//! - [`compaction`]: shortens a conversation that gets too long. Pure.
//! - [`record`]: the conversation, built from the recorded events.
//! - `prompt`, [`instructions`], `prompt_notes`: what a model is told before the conversation.
//! - `knowledge`: what a session knows besides its conversation. [`skills`]: instructions for
//!   particular tasks; [`memory`]: notes that last across sessions.
//! - `session_prefix`: the beginning of every request of a session, for its reviews.
//! - [`providers`]: the configured providers, with their keys, prices and windows.
//! - [`client`]: sends requests over HTTP.
//! - [`provider`]: the model APIs: turns requests into bytes, and bytes into events. Pure.
//! - [`arguments`]: repairs the arguments and the names of tool calls. Pure.
//! - [`retry`]: decides what to do after a request has failed. Pure.
//! - [`answer_reader`]: reads an answer within its timeouts, and describes one that broke off.
//! - `request_dump`: writes the last request of a failed turn to a file, if the owner wants it.
//! - [`image_care`]: which images a model accepts, and how to shrink one.
//! - [`ending`]: whether an answer is finished. Pure.
//! - [`text_calls`]: tool calls in the text of an answer. Pure.
//! - [`tools`]: what a model can do on this machine (`docs/design/0030-native-tools.md`).
//! - `notice_queue`: notices from tools and servers, until a turn can report them.
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

/// Builds the executor on a transport other than HTTP, for tests of its timeouts.
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
