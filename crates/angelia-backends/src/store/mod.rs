//! Stores for sessions, turns and events: in SQLite, or in memory for tests and one-off runs.

mod memory;
mod sqlite;

pub use memory::MemoryStore;
pub use sqlite::{OpenStoreError, SqliteStore};
