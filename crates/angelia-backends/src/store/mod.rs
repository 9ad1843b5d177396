//! Stores for sessions, turns and events.

mod sqlite;

pub use sqlite::{OpenStoreError, SqliteStore};
