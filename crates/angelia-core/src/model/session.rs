//! A session as the store keeps it.

use std::sync::Arc;

use jiff::Timestamp;

use super::{NativeSessionId, SessionId, SessionSpec, TurnId};

#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub id: SessionId,
    pub title: Option<Arc<str>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The complete launch specification, so that a restart loses no setting.
    pub spec: SessionSpec,
    /// The agent's own session id, once it has one.
    pub native: Option<NativeSessionId>,
    /// The session this one was forked from.
    pub forked_from: Option<SessionId>,
    /// The last turn of `forked_from` that belongs to this session too; `None` if it had none.
    pub forked_after: Option<TurnId>,
    /// Incremented by every change; `Store::put_session` compares it.
    pub revision: u64,
}

/// A name that a client gave to a session: a host's `session_id`, a header, a chat. The scope keeps
/// the names of different frontends and API keys apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalName {
    pub scope: Arc<str>,
    pub name: Arc<str>,
}
