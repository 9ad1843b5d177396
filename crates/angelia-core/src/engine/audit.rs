//! The audit: one call for everything that a person, a key or an agent changes.

use std::sync::Arc;

use super::{Engine, EngineError};
use crate::{
    model::{AuditAction, AuditActor, AuditEntry, AuditRecord},
    ports::AuditQuery,
};

impl Engine {
    /// Adds a row to the audit, after the fact. A row that cannot be written is only logged,
    /// because the change that it reports has already happened.
    pub async fn record_audit(
        &self,
        actor: AuditActor,
        action: AuditAction,
        subject: impl Into<Arc<str>>,
    ) {
        let entry =
            AuditEntry { at: self.shared.clock.now(), actor, action, subject: subject.into() };
        let text = format!("{} by {}: {}", entry.action.as_str(), entry.actor, entry.subject);
        if let Err(error) = self.shared.store.record_audit(entry).await {
            tracing::error!(%error, "this is missing in the audit: {text}");
        }
    }

    /// Lists the audit, newest row first.
    pub async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditRecord>, EngineError> {
        Ok(self.shared.store.audit(query).await?)
    }
}
