//! Where Angelia keeps things: implementations of the core's storage ports.
//!
//! - [`store`]: sessions, turns and events, in SQLite or in memory.
//! - [`deliveries`]: what has to reach a channel.
//! - [`bus`]: messages between endpoints, in a log on disk or in memory.
//! - [`owners`]: which angelia processes of this home are alive.

pub mod bus;
pub mod deliveries;
pub mod owners;
pub mod store;
