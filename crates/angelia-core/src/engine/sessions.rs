//! The session methods of the engine: create, list, rename, fork, delete.

use std::sync::Arc;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::{
    facade::{Engine, EngineError, NewSession},
    history,
};
use crate::{
    model::{HistoryMessage, SessionId, SessionRecord, TurnId},
    ports::{Page, StoreError},
};

impl Engine {
    /// Creates a session. With a name that already has a session, returns that session instead.
    pub async fn create_session(&self, new: NewSession) -> Result<SessionRecord, EngineError> {
        self.shared.executor(&new.spec.executor)?;
        let now = self.shared.clock.now();
        let session = SessionRecord {
            id: SessionId::from_uuid(self.shared.clock.fresh_uuid()),
            title: new.title,
            created_at: now,
            updated_at: now,
            spec: new.spec,
            native: None,
            forked_from: None,
            revision: 0,
        };
        let store = &self.shared.store;
        store.create_session(&session).await?;
        if let Some(name) = new.name {
            let named = store.bind_name(&name, session.id).await?;
            if named != session.id {
                // Another caller bound the name first: use its session and drop ours.
                store.delete_session(session.id).await?;
                return self.session(named).await;
            }
        }
        Ok(session)
    }

    pub async fn session(&self, id: SessionId) -> Result<SessionRecord, EngineError> {
        self.shared.store.session(id).await?.ok_or(EngineError::NotFound("session"))
    }

    pub async fn sessions(&self, page: Page) -> Result<Vec<SessionRecord>, EngineError> {
        Ok(self.shared.store.sessions(page).await?)
    }

    pub async fn rename_session(
        &self,
        id: SessionId,
        title: Option<Arc<str>>,
    ) -> Result<SessionRecord, EngineError> {
        loop {
            let mut session = self.session(id).await?;
            session.title.clone_from(&title);
            session.updated_at = self.shared.clock.now();
            match self.shared.store.put_session(&session).await {
                Ok(revision) => {
                    self.shared.notify_changed(id);
                    return Ok(SessionRecord { revision, ..session });
                }
                // The session's actor wrote in between: read its change and apply ours on top.
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a session that continues from the current state of this one.
    pub async fn fork_session(&self, id: SessionId) -> Result<SessionRecord, EngineError> {
        let parent = self.session(id).await?;
        let executor = self.shared.executor(&parent.spec.executor)?;
        let native = match &parent.native {
            Some(native) => Some(executor.fork(&parent.spec, native).await?),
            None => None,
        };
        let now = self.shared.clock.now();
        let session = SessionRecord {
            id: SessionId::from_uuid(self.shared.clock.fresh_uuid()),
            created_at: now,
            updated_at: now,
            native,
            forked_from: Some(id),
            revision: 0,
            ..parent
        };
        self.shared.store.create_session(&session).await?;
        self.shared.notify_changed(session.id);
        Ok(session)
    }

    /// Returns the whole conversation of a session as messages, including what was said before the
    /// fork.
    pub async fn messages(&self, id: SessionId) -> Result<Vec<HistoryMessage>, EngineError> {
        self.messages_until(id, TurnId::from_uuid(Uuid::max())).await
    }

    /// Returns the conversation as it was after the turn `last`.
    pub async fn messages_until(
        &self,
        id: SessionId,
        last: TurnId,
    ) -> Result<Vec<HistoryMessage>, EngineError> {
        let session = self.session(id).await?;
        // The page bound is exclusive and turn ids sort by age, so the next id includes `last`.
        let end = Uuid::from_u128(last.as_uuid().as_u128().saturating_add(1));
        let end = TurnId::from_uuid(end);
        Ok(history::messages_before(&*self.shared.store, &session, end).await?)
    }

    /// Subscribes to the ids of sessions that change: a turn ended, a new title, a fork, a
    /// deletion.
    pub fn subscribe_changes(&self) -> broadcast::Receiver<SessionId> {
        self.shared.changes.subscribe()
    }

    /// Deletes a session, its record, and the agent's own transcript. Interrupts a running turn
    /// first.
    pub async fn delete_session(&self, id: SessionId) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        // Own the session before anything is removed: fails if another process holds it.
        let lease = match self.shared.end_actor(id).await {
            Some(lease) => lease,
            None => self.shared.store.acquire_lease(id).await?,
        };
        if let (Ok(executor), Some(native)) =
            (self.shared.executor(&session.spec.executor), &session.native)
        {
            executor.delete_conversation(&session.spec, native).await?;
        }
        self.shared.store.delete_session(id).await?;
        self.shared.store.release_lease(lease).await?;
        self.shared.notify_changed(id);
        Ok(())
    }
}
