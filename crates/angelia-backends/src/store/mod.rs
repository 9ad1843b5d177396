//! Sessions, turns and events: in SQLite for everybody, in memory for tests and one-off runs.

mod memory;
mod sqlite;

pub use memory::MemoryStore;
pub use sqlite::{OpenError, SqliteStore};
