//! The executors (the kinds of agents that we can drive), and the supervision of their processes.
//!
//! - [`EXECUTORS`]: every executor, in the order in which `executor: auto` tries them.
//! - [`host`]: the services that the binary gives to every executor.
//! - [`acp`]: any agent that speaks the Agent Client Protocol.
//! - [`claude`]: Claude Code over its stream-json protocol.
//! - [`codex`]: Codex through its app-server.
//! - [`native`]: our own loop on a provider's API.
//! - [`parrot`]: the built-in demo agent, for machines without another agent.
//! - [`scripted_claude`]: Claude Code's side of its protocol, for the parrot and for tests.
//! - [`scripted_model`]: a model server on loopback whose answers are scripted by the prompts, for
//!   tests and the self-test.
//! - [`selftest`]: checks whether an installed agent behaves as we expect.
//! - [`wire_log`]: a log of the lines between us and the agents of a self-test.
//! - [`npm`]: programs that npm installs.
//! - `billing`, `list_prices`, `prompt_prefix`: the billing check, list prices and prompt hashes
//!   that several executors need.
//! - [`pool`]: processes started before they are needed.
//! - [`process`]: child processes, from their start to the end of their last descendant.
//! - `real_path`: resolves every link in a path.
//! - `process_link`: the pipes of a running child process.
//! - `sealed_folder`: the configuration folder of an agent in model mode.
//! - `turn_driver`: the event loop of a turn, on top of an agent's protocol.
//! - `turn_timers`: the timers of an agent that was asked to stop.

pub mod acp;
mod billing;
pub mod claude;
pub mod codex;
mod delegation_slot;
mod emit;
pub mod host;
mod lenient;
mod list_prices;
pub mod native;
pub mod npm;
pub mod parrot;
mod per_file_cache;
pub mod pool;
pub mod process;
mod process_link;
mod prompt_prefix;
mod real_path;
pub mod scripted_claude;
pub mod scripted_model;
mod sealed_folder;
pub mod selftest;
mod truncation;
mod turn_driver;
mod turn_timers;
pub mod wire_log;

use std::sync::Arc;

use angelia_core::ports::Executor;

pub use delegation_slot::DelegationSlot;
pub use host::ExecutorHost;

use self::{npm::NpmProgram, selftest::ScriptedAgent};

/// One executor, as the binary, `doctor` and the conformance suites look it up.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Names of the files and folders that configure the agent, wherever they are. The permission
    /// rules protect them.
    pub agent_files: &'static [&'static str],
    /// The executor's name in configuration, URLs and records.
    pub name: &'static str,
    /// A one-line description for people.
    pub about: &'static str,
    pub model_ids: ModelIds,
    /// The agent's program, if npm can install it.
    pub npm: Option<&'static NpmProgram>,
    /// How a self-test drives this agent with a scripted model, if it can.
    pub selftest: Option<&'static dyn ScriptedAgent>,
    pub build: fn(ExecutorHost) -> Arc<dyn Executor>,
}

/// Model ids that the model APIs accept for this executor, in addition to `NAME/MODEL`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelIds {
    /// Prefixes of the vendor's own model ids, which are accepted unchanged.
    pub vendor_prefixes: &'static [&'static str],
    /// Further ids for agent mode, in addition to `NAME-agent`.
    pub agent_aliases: &'static [&'static str],
    /// The models shown in lists of models (`GET /v1/models`, ACP).
    pub listed_models: &'static [&'static str],
    /// Models are named `PROVIDER/MODEL`, are billed by the token, and are available only to keys
    /// that may use the provider.
    pub by_provider: bool,
}

/// Every executor. A new executor needs its `pub mod` above and its registration here.
pub static EXECUTORS: &[Registration] = &[
    claude::REGISTRATION,
    codex::REGISTRATION,
    acp::REGISTRATION,
    native::REGISTRATION,
    parrot::REGISTRATION,
];

/// Returns the names of all agents' configuration files.
pub fn agent_files() -> Vec<&'static str> {
    EXECUTORS.iter().flat_map(|kind| kind.agent_files).copied().collect()
}
