//! Implementations of the core's storage ports.
//!
//! - [`store`]: sessions, turns and events, in SQLite.
//! - [`deliveries`]: texts that have to reach a channel, in SQLite.
//! - [`bus`]: messages between endpoints, in a log on disk.
//! - [`owners`]: lock files that tell which angelia processes of this home are alive.

pub mod bus;
pub mod deliveries;
pub mod owners;
pub mod store;
