//! The bytes that every request of a session begins with. A review of the session sends the same
//! bytes, so that it hits the provider's cache. It takes them from the live session, because only
//! that knows the tools of MCP servers and the parts that the provider has refused.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use angelia_core::model::{CallerTool, SessionId};
use serde_json::Value;

use super::provider::RequestSettings;

/// The beginning of every request of a live session.
#[derive(Debug)]
pub(super) struct SessionPrefix {
    system: Mutex<Arc<str>>,
    pub(super) definitions: Vec<CallerTool>,
    /// The schemas of the tools that we run.
    pub(super) schemas: HashMap<Arc<str>, Value>,
    /// Without the parts that the provider has refused so far.
    request: Mutex<RequestSettings>,
}

impl SessionPrefix {
    pub(super) fn new(
        system: Arc<str>,
        definitions: Vec<CallerTool>,
        schemas: HashMap<Arc<str>, Value>,
        request: RequestSettings,
    ) -> Self {
        let (system, request) = (Mutex::new(system), Mutex::new(request));
        Self { system, definitions, schemas, request }
    }

    pub(super) fn system(&self) -> Arc<str> {
        Arc::clone(&self.system.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the system prompt after the session's notes have changed.
    pub(super) fn set_system(&self, system: Arc<str>) {
        *self.system.lock().unwrap_or_else(PoisonError::into_inner) = system;
    }

    pub(super) fn request(&self) -> RequestSettings {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the settings with those of a turn, which may have learned what the provider
    /// refuses.
    pub(super) fn set_request(&self, request: &RequestSettings) {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone_from(request);
    }
}

/// The prefixes of all open sessions.
#[derive(Debug, Default)]
pub(super) struct LivePrefixes(Mutex<HashMap<SessionId, Weak<SessionPrefix>>>);

impl LivePrefixes {
    pub(super) fn insert(&self, session: SessionId, prefix: &Arc<SessionPrefix>) {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, prefix| prefix.strong_count() > 0);
        live.insert(session, Arc::downgrade(prefix));
    }

    /// Returns the prefix of a session, if the session is open.
    pub(super) fn find(&self, session: SessionId) -> Option<Arc<SessionPrefix>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&session)?.upgrade()
    }
}
