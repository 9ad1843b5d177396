//! A session whose settings are changed while it lives, one that is launched anew, and one that is
//! put to rest.

use std::fmt;

use tokio::sync::oneshot;

use super::{
    facade::{Engine, EngineError},
    session::{Command, SessionActor},
};
use crate::{
    model::{SessionId, SessionRecord, SessionSpec},
    ports::StoreError,
};

/// What becomes of a specification.
pub(super) enum Change {
    /// Some settings are others.
    Settings(Box<dyn FnOnce(&mut SessionSpec) + Send>),
    /// The next agent begins a conversation of its own with the history in here; not while a turn
    /// is under way.
    Launch(Box<SessionSpec>),
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings(_) => "Settings",
            Self::Launch(_) => "Launch",
        })
    }
}

impl Engine {
    /// Changes what a session is started with. Permissions count from now on, also in a running
    /// turn; the rest from the next turn, which starts the agent anew on the same conversation if
    /// its process cannot take the change up.
    pub async fn change_session(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut SessionSpec) + Send + 'static,
    ) -> Result<SessionRecord, EngineError> {
        let changed = self.changed(id, Change::Settings(Box::new(change))).await?;
        changed.ok_or(EngineError::ShuttingDown)
    }

    /// Launches a session anew from its next turn on: another agent, which is told the
    /// specification's history. The session keeps its name and its record. `false`: a turn is
    /// under way or waits, and nothing has changed.
    pub async fn relaunch_session(
        &self,
        id: SessionId,
        spec: SessionSpec,
    ) -> Result<bool, EngineError> {
        let changed = self.changed(id, Change::Launch(Box::new(spec))).await?;
        Ok(changed.is_some())
    }

    async fn changed(
        &self,
        id: SessionId,
        mut change: Change,
    ) -> Result<Option<SessionRecord>, EngineError> {
        loop {
            let (reply, answer) = oneshot::channel();
            let actor = self.shared.actor(id).await?;
            match actor.send(Command::Change { change, reply }).await {
                Ok(()) => {
                    let record = answer.await.map_err(|_| EngineError::ShuttingDown)??;
                    self.shared.changed(id);
                    return Ok(record);
                }
                // The actor had just decided to end: start another one.
                Err(Command::Change { change: returned, .. }) => change = returned,
                Err(_) => return Err(EngineError::ShuttingDown),
            }
        }
    }

    /// Ends a running turn, closes the session's agent, and lets others own the session. It stays
    /// as it is, and the next turn finds it so.
    pub async fn rest_session(&self, id: SessionId) -> Result<(), EngineError> {
        self.session(id).await?;
        if let Some(lease) = self.shared.end_actor(id).await {
            self.shared.store.release(lease).await?;
        }
        Ok(())
    }
}

impl SessionActor {
    /// `None`: not now.
    pub(super) async fn change(
        &mut self,
        change: Change,
        idle: bool,
    ) -> Result<Option<SessionRecord>, StoreError> {
        match change {
            Change::Settings(change) => {
                let mut record = SessionRecord::clone(&self.record);
                change(&mut record.spec);
                record.updated_at = self.shared.clock.now();
                let record = self.put(record).await?;
                self.replace(record);
                self.changed_midway |= !idle;
            }
            Change::Launch(_) if !idle || !self.queue.is_empty() => return Ok(None),
            Change::Launch(spec) => self.launch_anew(*spec).await?,
        }
        Ok(Some(SessionRecord::clone(&self.record)))
    }

    /// Puts another specification in the place of the old one, whose agent and its own transcript
    /// are given up: the new one's history has what was said.
    pub(super) async fn launch_anew(&mut self, spec: SessionSpec) -> Result<(), StoreError> {
        self.close_agent().await;
        let mut record = SessionRecord::clone(&self.record);
        record.native = None;
        record.spec = spec;
        record.updated_at = self.shared.clock.now();
        let record = self.put(record).await?;
        let old = self.replace(record);
        if let (Ok(executor), Some(native)) =
            (self.shared.executor(&old.spec.executor), &old.native)
            && let Err(error) = executor.forget(&old.spec, native).await
        {
            tracing::warn!(session = %old.id, %error, "a transcript that nobody needs stays");
        }
        Ok(())
    }
}
