//! The files that Angelia keeps for a session outside the store.

use std::io;

use super::BoxFuture;
use crate::model::SessionId;

/// The folders of sessions: files sent to an agent, files written by its tools, and data that did
/// not fit into the record.
pub trait SessionFiles: Send + Sync + 'static {
    /// Removes everything kept for a session. It is not an error if there are no files.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, io::Result<()>>;
}
