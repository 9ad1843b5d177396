//! Stores for sessions, turns and events.
//!
//! - `sqlite`: in one file.
//! - `event_json`, `spec_json`, `content_json`, `outcome_json`, `values`: what every store writes
//!   into its columns; `unreadable`: the error when it cannot be read back.
//! - `spoken`: what the search keeps of a turn; `writer_owner`: in whose name a store writes.

mod content_json;
mod event_json;
mod outcome_json;
mod spec_json;
mod spoken;
mod sqlite;
mod unreadable;
mod values;
mod writer_owner;

pub use sqlite::{OpenStoreError, SqliteStore};
