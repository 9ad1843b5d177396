//! The executors (kinds of agents we can drive) and the supervision of their processes.
//!
//! - [`EXECUTORS`]: every executor, in the order in which `executor: auto` tries them.
//! - [`host`]: the services that the binary gives to every executor.
//! - [`acp`]: any agent that speaks the Agent Client Protocol.
//! - [`claude`]: Claude Code over its stream-json protocol.
//! - [`codex`]: Codex through its app-server.
//! - [`parrot`]: the built-in demo agent, for machines that have no other.
//! - [`pool`]: processes started before they are needed.
//! - [`process`]: child processes, from their start to the end of their last descendant.
//! - `process_link`: the pipes of a running child process.
//! - `turn_timers`: the timeouts of a turn: agents that do not stop, pipes that stay open.

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

/// One executor, as the binary, `doctor` and the conformance suites look it up.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The executor's name in configuration, URLs and records.
    pub name: &'static str,
    /// A one-line description for people.
    pub about: &'static str,
    pub model_ids: ModelIds,
    pub build: fn(Host) -> Arc<dyn Executor>,
}

/// Model ids that the model APIs accept for this executor, besides `NAME/MODEL`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelIds {
    /// Prefixes of the vendor's own model ids, which are accepted unchanged.
    pub bare: &'static [&'static str],
    /// Further ids for agent mode, besides `NAME-agent`.
    pub agent_words: &'static [&'static str],
    /// The models shown in lists of models (`GET /v1/models`, ACP).
    pub listed: &'static [&'static str],
}

/// Every executor. A new executor needs its `pub mod` above and its registration here.
pub static ALL: &[Registration] =
    &[claude::REGISTRATION, codex::REGISTRATION, acp::REGISTRATION, parrot::REGISTRATION];
