//! Implementations of the core's storage ports.
//!
//! - [`store`]: sessions, turns and events, in SQLite.
//! - [`chats`]: events of chat platforms and who may talk there, in SQLite.
//! - [`deliveries`]: texts that have to reach a channel, in SQLite.
//! - `small_database`: what those two share.
//! - [`bus`]: messages between endpoints, in a log on disk.
//! - [`edit_diff`]: the diff of an agent's edit against the files of this machine.
//! - [`file_times`]: change stamps of files, for schedules that watch them.
//! - [`paths`]: real paths on this machine.
//! - [`session_files`]: the folders of sessions.
//! - [`owners`]: lock files that tell which angelia processes of this home are alive.

pub mod bus;
pub mod chats;
pub mod deliveries;
pub mod edit_diff;
pub mod file_times;
pub mod owners;
pub mod paths;
pub mod session_files;
mod small_database;
pub mod store;
