//! Stores for sessions, turns and events.
//!
//! - `sqlite`: in one file; `postgres`: in a database on a server.
//! - `event_json`, `spec_json`, `content_json`, `outcome_json`, `values`: what every store writes
//!   into its columns; `unreadable`: the error when it cannot be read back.
//! - `search_text`: the text of a turn that the search keeps; `writer_owner`: in whose name a store writes.

mod content_json;
mod event_json;
mod outcome_json;
#[cfg(feature = "postgres")]
mod postgres;
mod search_text;
mod spec_json;
mod sqlite;
mod unreadable;
mod values;
mod writer_owner;

#[cfg(feature = "postgres")]
pub use postgres::{Machine, OpenPostgresError, PostgresAddress, PostgresStore, StoreAddressError};
pub use sqlite::{OpenStoreError, SqliteStore};
