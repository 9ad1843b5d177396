//! Implementations of the core's storage ports.
//!
//! - [`store`]: sessions, turns and events, in SQLite.
//! - [`deliveries`]: texts that have to reach a channel, in SQLite.
//! - [`bus`]: messages between endpoints, in a log on disk.
//! - [`edit_diff`]: what an agent's edit would change in the files of this machine.
//! - [`file_times`]: when files were changed, for schedules that watch them.
//! - [`paths`]: where paths really lead on this machine.
//! - [`owners`]: lock files that tell which angelia processes of this home are alive.

pub mod bus;
pub mod deliveries;
pub mod edit_diff;
pub mod file_times;
pub mod owners;
pub mod paths;
pub mod store;
