//! The files that Angelia keeps for a session outside the store.

use std::io;

use super::BoxFuture;
use crate::model::SessionId;

/// The folders of sessions: what was sent to an agent, what its tools wrote, and what did not fit
/// into the record.
pub trait SessionFiles: Send + Sync + 'static {
    /// Removes everything that is kept for a session. A session without files is no error.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, io::Result<()>>;
}
