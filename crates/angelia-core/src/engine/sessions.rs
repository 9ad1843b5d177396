//! The engine's session methods: create, find, list, rename, fork, delete.

use std::sync::Arc;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::{
    changes::EngineChange,
    facade::{Engine, EngineError, NewSession},
    history::{self, ConversationEnd},
    short_ids,
};
use crate::{
    model::{
        ExternalName, Failure, FailureKind, HistoryMessage, IdPrefix, SessionId, SessionRecord,
        SessionSource, SessionSpec, SessionSummary, TurnId, TurnRecord, TurnState,
    },
    ports::{ConversationError, Page, RecordKind, SessionQuery, StoreError},
    redact::Redactor,
};

/// Maximum number of model requests in a turn that an agent has delegated. Such a turn handles only part of
/// the work.
const MAX_DELEGATED_ITERATIONS: u32 = 50;

#[derive(Clone, Debug)]
pub struct NewestTurn {
    pub id: TurnId,
    /// The caller that is billed for the turn; see [`TurnOptions::caller`](crate::model::TurnOptions).
    pub caller: Option<Arc<str>>,
    pub stage: TurnStage,
}

/// State of a session's newest turn, as far as it matters for submitting the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStage {
    Finished,
    AwaitingToolResult,
    Busy,
}

impl TurnStage {
    const fn of(state: &TurnState) -> Self {
        match state {
            TurnState::Finished { .. } => Self::Finished,
            TurnState::AwaitingToolResult => Self::AwaitingToolResult,
            _ => Self::Busy,
        }
    }
}

impl Engine {
    /// Creates a session. If the name already has a session, returns that session instead.
    pub async fn create_session(&self, mut new: NewSession) -> Result<SessionRecord, EngineError> {
        self.shared.executor(&new.spec.executor)?;
        if new.source == Some(SessionSource::Agent) {
            let iterations = &mut new.spec.native.max_iterations;
            *iterations = MAX_DELEGATED_ITERATIONS.min(*iterations);
        }
        let now = self.shared.clock.now();
        let session = SessionRecord {
            id: SessionId::from_uuid(self.shared.clock.fresh_uuid()),
            title: new.title,
            source: new.source,
            created_at: now,
            updated_at: now,
            spec: new.spec,
            native: None,
            forked_from: None,
            forked_after: None,
            revision: 0,
        };
        let store = &self.shared.store;
        store.create_session(&session).await?;
        if let Some(name) = new.name {
            let named = store.bind_name(&name, session.id).await?;
            if named != session.id {
                // Another caller bound the name first: use its session and drop the new one.
                store.delete_session(session.id).await?;
                return self.session(named).await;
            }
        }
        if !session.is_hidden() {
            self.shared.announce(EngineChange::Session(session.id));
        }
        Ok(session)
    }

    pub async fn session(&self, id: SessionId) -> Result<SessionRecord, EngineError> {
        self.shared.store.session(id).await?.ok_or(EngineError::NotFound("session"))
    }

    /// Returns the session in the state that its next turn will use. The title may be outdated, because a
    /// session with an actor in this process is not read from the store.
    pub async fn cached_session(&self, id: SessionId) -> Result<Arc<SessionRecord>, EngineError> {
        match self.shared.existing_actor(id) {
            Some(actor) => Ok(actor.record()),
            None => self.session(id).await.map(Arc::new),
        }
    }

    /// Returns the session with its newest turn, or `None` if it has no turn.
    pub async fn newest_turn(
        &self,
        id: SessionId,
    ) -> Result<Option<(Arc<SessionRecord>, NewestTurn)>, EngineError> {
        let session = self.cached_session(id).await?;
        let newest = self.turns(Some(id), Page::first(1)).await?.pop();
        Ok(newest.map(|turn| {
            let stage = TurnStage::of(&turn.state);
            (session, NewestTurn { id: turn.id, caller: turn.options.caller, stage })
        }))
    }

    pub async fn find_by_name(
        &self,
        name: &ExternalName,
    ) -> Result<Option<SessionId>, EngineError> {
        Ok(self.shared.store.find_by_name(name).await?)
    }

    pub async fn sessions(&self, page: Page) -> Result<Vec<SessionRecord>, EngineError> {
        Ok(self.shared.store.sessions(page).await?)
    }

    /// Lists sessions, with the fields that people see.
    pub async fn list_sessions(
        &self,
        query: SessionQuery,
    ) -> Result<Vec<SessionSummary>, EngineError> {
        Ok(self.shared.store.list_sessions(query).await?)
    }

    /// Returns up to `limit` ids with this prefix.
    pub async fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> Result<Vec<Uuid>, EngineError> {
        Ok(self.shared.store.find_ids(kind, prefix, limit).await?)
    }

    /// Returns the shortest prefix that currently identifies an id among those of its kind.
    pub async fn short_id(&self, kind: RecordKind, id: Uuid) -> Result<String, EngineError> {
        Ok(short_ids::short_id(&*self.shared.store, kind, id).await?)
    }

    /// Returns the short ids for one page of a list.
    pub async fn short_ids(
        &self,
        kind: RecordKind,
        ids: Vec<Uuid>,
    ) -> Result<Vec<String>, EngineError> {
        Ok(short_ids::short_ids(&*self.shared.store, kind, ids).await?)
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
                // The session's actor wrote in between: read its change and apply this one on top.
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a session that continues from the current state of this one.
    pub async fn fork_session(&self, id: SessionId) -> Result<SessionRecord, EngineError> {
        let parent = self.session(id).await?;
        let executor = self.shared.executor(&parent.spec.executor)?;
        let copied = match &parent.native {
            Some(native) => executor.fork(&parent.spec, native).await.map(Some),
            None => Ok(None),
        };
        let newest = self.shared.store.turns(Some(id), Page::first(1)).await?.pop();
        let mut spec = parent.spec.clone();
        let native = match copied {
            Ok(native) => native,
            // The agent no longer has the conversation, so the fork starts from the recorded one.
            Err(ConversationError::Lost) if executor.capabilities().carry_history => {
                let store = &*self.shared.store;
                spec.history = history::messages(store, &parent, ConversationEnd::Newest).await?;
                spec.history_until = newest.as_ref().map(|turn| turn.id).or(spec.history_until);
                None
            }
            Err(error) => return Err(redacted(&parent.spec, error.into()).into()),
        };
        let now = self.shared.clock.now();
        let session = SessionRecord {
            id: SessionId::from_uuid(self.shared.clock.fresh_uuid()),
            created_at: now,
            updated_at: now,
            spec,
            native,
            forked_from: Some(id),
            forked_after: newest.map(|turn| turn.id),
            revision: 0,
            ..parent
        };
        self.shared.store.create_session(&session).await?;
        self.shared.notify_changed(session.id);
        Ok(session)
    }

    /// Returns the whole conversation of a session as messages, including the part before its fork.
    pub async fn messages(&self, id: SessionId) -> Result<Vec<HistoryMessage>, EngineError> {
        let session = self.session(id).await?;
        Ok(history::messages(&*self.shared.store, &session, ConversationEnd::Newest).await?)
    }

    /// Returns all turns of a session's conversation, oldest first, including those of the sessions
    /// it was forked from.
    pub async fn conversation_turns(
        &self,
        session: &SessionRecord,
    ) -> Result<Vec<TurnRecord>, EngineError> {
        let end = ConversationEnd::Newest;
        Ok(history::conversation_turns(&*self.shared.store, session, end).await?)
    }

    /// Returns the conversation as it was after the turn `last`.
    pub async fn messages_until(
        &self,
        id: SessionId,
        last: TurnId,
    ) -> Result<Vec<HistoryMessage>, EngineError> {
        let session = self.session(id).await?;
        let end = ConversationEnd::After(last);
        Ok(history::messages(&*self.shared.store, &session, end).await?)
    }

    /// Subscribes to the ids of sessions that change: the end of a turn, a new title, a fork, a deletion.
    pub fn subscribe_changes(&self) -> broadcast::Receiver<SessionId> {
        self.shared.changes.subscribe()
    }

    /// Deletes a session with its record, its files and the agent's own transcript. Interrupts a running turn
    /// first.
    pub async fn delete_session(&self, id: SessionId) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        // Own the session before removing anything. This fails if another process holds it.
        let lease = match self.shared.end_actor(id).await {
            Some(lease) => lease,
            None => self.shared.store.acquire_lease(id).await?,
        };
        if let (Ok(executor), Some(native)) =
            (self.shared.executor(&session.spec.executor), &session.native)
        {
            let deleted = executor.delete_conversation(&session.spec, native).await;
            deleted.map_err(|failure| redacted(&session.spec, failure))?;
        }
        // Remove the files before the record, because only the record leads to them.
        self.shared.session_files.remove(id).await.map_err(|error| {
            let message = format!("cannot remove the files of session {id}: {error}");
            Failure::new(FailureKind::Internal, message)
                .with_hint("make `sessions` in Angelia's home writable, then delete it again")
        })?;
        self.shared.store.delete_session(id).await?;
        self.shared.store.release_lease(lease).await?;
        self.delete_review(id).await?;
        self.shared.purge_deleted_words();
        self.shared.notify_changed(id);
        Ok(())
    }
}

/// Masks the secrets of a session in a failure that its agent reports.
fn redacted(spec: &SessionSpec, failure: Failure) -> Failure {
    Redactor::of_spec(spec).redact_failure(failure)
}
