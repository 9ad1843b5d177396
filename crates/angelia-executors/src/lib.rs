//! The agents we can drive, and the supervision of their processes.
//!
//! - [`ALL`]: every kind of agent, in the order in which `executor: auto` looks for them.
//! - [`host`]: what the binary hands to all of them.
//! - [`claude`]: Claude Code over its stream-json protocol.
//! - [`parrot`]: the built-in demo agent, for machines that have no other.
//! - [`pool`]: processes started before they are needed.
//! - [`process`]: children, from their start to the last of their descendants.

pub mod claude;
pub mod host;
pub mod parrot;
pub mod pool;
pub mod process;

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
    pub build: fn(Host) -> Arc<dyn Executor>,
}

/// Whoever adds an agent adds its `pub mod` above and its line here.
pub static ALL: &[Registration] = &[claude::REGISTRATION, parrot::REGISTRATION];
