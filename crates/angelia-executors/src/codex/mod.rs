//! The `codex` executor: drives the vendor's unmodified Codex program, with the user's own login,
//! through its app-server protocol (JSON-RPC, one message per line).
//!
//! - `locate`, `probe`: find the program, its version and its login state.
//! - `launch`, `mcp`, `calls`: turn a session specification into environment variables, arguments,
//!   thread settings and requests. Pure, except that `launch` reads the user's `config.toml`.
//! - `sealed`, `sealed_config`: the folder of model mode, with the owner's login and the connection
//!   to the model. `start_lock`: lets a process start alone if others would interfere.
//! - `app_server`, `app_server_pool`: one app-server process serves many threads; the pool holds
//!   all processes.
//! - `thread`, `agent`, `turn`: an open thread and its turns.
//! - `process_guard`, `sandbox_cleanup`: remove the processes and empty folders of a thread.
//! - `past_conversations`: conversations that a person had directly in Codex.
//! - [`selftest`]: the setup for a scripted model.
//! - `executor`: implements the [`Executor`] port.
//! - [`user_config`]: edits the user's own `config.toml` for Codex.
//! - [`protocol`]: the JSON of both directions. [`translate`]: turns Codex's messages into events.
//!   Both are pure.
//! - `approval`, `failure`, `patch`, `prices`, `shell`, `tool`, `usage`: parts of the translation.

mod agent;
mod app_server;
mod app_server_pool;
mod approval;
mod calls;
mod executor;
mod failure;
mod launch;
mod locate;
mod mcp;
mod past_conversations;
mod patch;
mod prices;
mod probe;
mod process_guard;
pub mod protocol;
mod sandbox_cleanup;
mod sealed;
mod sealed_config;
pub mod selftest;
mod shell;
mod start_lock;
mod thread;
mod tool;
pub mod translate;
mod turn;
mod usage;
pub mod user_config;

use std::sync::Arc;

use angelia_core::ports::Executor;

pub use prices::ModelPrices;
pub(crate) use prices::list_price;

use crate::Registration;

pub const REGISTRATION: Registration = Registration {
    agent_files: &[".codex", ".agents"],
    name: executor::NAME,
    about: "Codex, with the login it has on this machine",
    model_ids: crate::ModelIds {
        vendor_prefixes: &["gpt-"],
        agent_aliases: &[],
        listed_models: &["default"],
        by_provider: false,
    },
    npm: Some(&locate::PROGRAM),
    selftest: Some(&selftest::CodexSelftest),
    build: |host| Arc::new(executor::CodexExecutor::new(host)) as Arc<dyn Executor>,
};
