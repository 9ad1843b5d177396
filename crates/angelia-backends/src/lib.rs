//! Where Angelia keeps things: implementations of the core's storage ports.
//!
//! - [`store`]: sessions, turns and events, in SQLite or in memory.
//! - [`owners`]: which angelia processes of this home are alive.

pub mod owners;
pub mod store;
