//! The agents we can drive, and the supervision of their processes.
//!
//! - [`ALL`]: every kind of agent, in the order in which `executor: auto` looks for them.
//! - [`host`]: what the binary hands to all of them.
//! - [`acp`]: any agent that speaks the Agent Client Protocol.
//! - [`claude`]: Claude Code over its stream-json protocol.
//! - [`codex`]: Codex through its app-server.
//! - [`parrot`]: the built-in demo agent, for machines that have no other.
//! - [`pool`]: processes started before they are needed.
//! - [`process`]: children, from their start to the last of their descendants; `link`: the pipes of one that runs.
//! - `turn_clocks`: what every turn waits for besides its agent's words.

pub mod acp;
pub mod claude;
pub mod codex;
pub mod host;
mod lenient;
mod link;
mod npm;
mod once_per_file;
pub mod parrot;
pub mod pool;
pub mod process;
mod prose;
mod turn_clocks;

use std::sync::Arc;

use angelia_core::ports::Executor;

pub use host::Host;

/// One kind of agent, as the binary, `doctor` and the conformance suites find it.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The word used in configuration, URLs and records.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub model_ids: ModelIds,
    pub build: fn(Host) -> Arc<dyn Executor>,
}

/// The ids by which callers of the model APIs know an agent's models, besides `NAME/MODEL`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelIds {
    /// How the vendor's own ids begin: these work as they are.
    pub bare: &'static [&'static str],
    /// Further words for the agent that acts on this machine, besides `NAME-agent`.
    pub agent_words: &'static [&'static str],
    /// What lists of models show.
    pub listed: &'static [&'static str],
}

/// Whoever adds an agent adds its `pub mod` above and its line here.
pub static ALL: &[Registration] =
    &[claude::REGISTRATION, codex::REGISTRATION, acp::REGISTRATION, parrot::REGISTRATION];
