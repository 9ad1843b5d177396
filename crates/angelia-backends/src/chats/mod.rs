//! The data of chats, in a small SQLite file of its own: an event is committed here before the
//! platform gets an acknowledgement, so a busy record of turns must not delay it.
//!
//! - [`SqliteChats`]: the [`ChatStore`](angelia_core::ports::ChatStore).
//! - `event_json`: events as the file has them.

mod event_json;
mod schema;
mod sqlite;
#[cfg(test)]
mod tests;

pub use sqlite::SqliteChats;
