//! Implementations of the core's storage ports.
//!
//! - [`store`]: sessions, turns and events, in SQLite.
//! - [`deliveries`]: texts that have to reach a channel, in SQLite.
//! - [`bus`]: messages between endpoints, in a log on disk.
//! - [`paths`]: where paths really lead on this machine.
//! - [`owners`]: lock files that tell which angelia processes of this home are alive.

pub mod bus;
pub mod deliveries;
pub mod owners;
pub mod paths;
pub mod store;
