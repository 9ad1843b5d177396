//! The audit log: records every change made by a person, a key or an agent.

use std::sync::Arc;

use super::{Engine, EngineError};
use crate::{
    model::{AuditAction, AuditActor, AuditEntry, AuditRecord},
    ports::AuditQuery,
};

impl Engine {
    /// Adds a row to the audit log after a change. A failed write is only logged, because the
    /// change has already happened.
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
            tracing::error!(%error, "this is missing from the audit log: {text}");
        }
    }

    /// Lists the rows of the audit log, newest first.
    pub async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditRecord>, EngineError> {
        Ok(self.shared.store.audit(query).await?)
    }
}
