//! A conversation as the store keeps it.

use std::sync::Arc;

use jiff::Timestamp;

use super::{NativeSessionId, SessionId, SessionSpec};

#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub id: SessionId,
    pub title: Option<Arc<str>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The full launch specification: what a restart must bring back.
    pub spec: SessionSpec,
    /// The agent's own conversation, once it has one.
    pub native: Option<NativeSessionId>,
    /// The session this one was forked from.
    pub forked_from: Option<SessionId>,
    /// Grows with every change; `put_session` compares it.
    pub revision: u64,
}

/// A name that somebody outside gave to a session: a host's `session_id`, a header, a chat.
/// Scoped, so that two frontends or two keys never meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalName {
    pub scope: Arc<str>,
    pub name: Arc<str>,
}
