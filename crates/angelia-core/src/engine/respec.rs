//! Changes to a session's launch specification: new settings, a relaunch with another agent, and
//! releasing a session.

use std::fmt;

use tokio::sync::oneshot;

use super::{
    facade::{Engine, EngineError},
    session_actor::SessionActor,
    session_command::SessionCommand,
};
use crate::{
    model::{SessionId, SessionRecord, SessionSpec},
    ports::StoreError,
};

/// A change to a session's specification.
pub(super) enum Respec {
    /// Changes some settings; the agent's conversation continues.
    Settings(Box<dyn FnOnce(&mut SessionSpec) + Send>),
    /// Replaces the specification: the next agent starts a new conversation from the history in it.
    /// Refused while a turn is running or queued.
    Relaunch(Box<SessionSpec>),
}

impl fmt::Debug for Respec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings(_) => "Settings",
            Self::Relaunch(_) => "Launch",
        })
    }
}

impl Engine {
    /// Changes the settings that a session is started with. New permissions apply at once, even to
    /// a running turn. All other settings apply from the next turn on, which restarts the agent on
    /// the same conversation if its process cannot adopt the change.
    pub async fn change_session(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut SessionSpec) + Send + 'static,
    ) -> Result<SessionRecord, EngineError> {
        let changed = self.send_respec(id, Respec::Settings(Box::new(change))).await?;
        changed.ok_or(EngineError::ShuttingDown)
    }

    /// Relaunches a session with another agent, which starts with the next turn from the history in
    /// `spec`. The session keeps its name and its record. Returns `false` and changes nothing if a
    /// turn is running or queued.
    pub async fn relaunch_session(
        &self,
        id: SessionId,
        spec: SessionSpec,
    ) -> Result<bool, EngineError> {
        let changed = self.send_respec(id, Respec::Relaunch(Box::new(spec))).await?;
        Ok(changed.is_some())
    }

    async fn send_respec(
        &self,
        id: SessionId,
        mut change: Respec,
    ) -> Result<Option<SessionRecord>, EngineError> {
        loop {
            let (reply, answer) = oneshot::channel();
            let actor = self.shared.get_or_start_actor(id).await?;
            match actor.send(SessionCommand::Respec { respec: change, reply }).await {
                Ok(()) => {
                    let record = answer.await.map_err(|_| EngineError::ShuttingDown)??;
                    self.shared.notify_changed(id);
                    return Ok(record);
                }
                // The actor has just ended: start another one and resend the change.
                Err(SessionCommand::Respec { respec: returned, .. }) => change = returned,
                Err(_) => return Err(EngineError::ShuttingDown),
            }
        }
    }

    /// Ends the running turn, closes the session's agent and releases the lease, so that another
    /// process can own the session. The stored session is unchanged.
    pub async fn release_session(&self, id: SessionId) -> Result<(), EngineError> {
        self.session(id).await?;
        if let Some(lease) = self.shared.end_actor(id).await {
            self.shared.store.release_lease(lease).await?;
        }
        Ok(())
    }
}

impl SessionActor {
    /// Applies a change, or returns `None` if that is not possible now.
    pub(super) async fn apply_respec(
        &mut self,
        change: Respec,
        idle: bool,
    ) -> Result<Option<SessionRecord>, StoreError> {
        match change {
            Respec::Settings(change) => {
                let mut record = SessionRecord::clone(&self.record);
                change(&mut record.spec);
                record.updated_at = self.shared.clock.now();
                let record = self.store_record(record).await?;
                self.set_record(record);
                self.changed_during_turn |= !idle;
            }
            Respec::Relaunch(_) if !idle || !self.queue.is_empty() => return Ok(None),
            Respec::Relaunch(spec) => self.relaunch(*spec).await?,
        }
        Ok(Some(SessionRecord::clone(&self.record)))
    }

    /// Replaces the specification, closes the old agent and deletes its transcript. The history in
    /// the new specification preserves the conversation.
    pub(super) async fn relaunch(&mut self, spec: SessionSpec) -> Result<(), StoreError> {
        self.close_agent().await;
        let mut record = SessionRecord::clone(&self.record);
        record.native = None;
        record.spec = spec;
        record.updated_at = self.shared.clock.now();
        let record = self.store_record(record).await?;
        let old = self.set_record(record);
        if let (Ok(executor), Some(native)) =
            (self.shared.executor(&old.spec.executor), &old.native)
            && let Err(error) = executor.delete_conversation(&old.spec, native).await
        {
            tracing::warn!(session = %old.id, %error, "the old agent's transcript was not deleted");
        }
        Ok(())
    }
}
