//! Answers about a session without asking the store. The actor in this process owns the session, so
//! no other process can add a turn, change its specification, or delete it and free its name.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use super::{
    engine_state::lock,
    facade::{Engine, EngineError},
    turn_log::{LogProgress, TurnLog},
};
use crate::{
    model::{ExternalName, SessionId, SessionRecord, TurnId, TurnState},
    ports::Page,
};

/// The latest record and turn of a session, updated by its actor.
#[derive(Debug)]
pub(super) struct SessionCache(Mutex<CachedSession>);

#[derive(Clone, Debug)]
struct CachedSession {
    session: Arc<SessionRecord>,
    /// `None`: no turn since the actor started.
    newest_turn: Option<CachedTurn>,
}

#[derive(Clone, Debug)]
struct CachedTurn {
    id: TurnId,
    caller: Option<Arc<str>>,
    progress: watch::Receiver<LogProgress>,
}

#[derive(Clone, Debug)]
pub struct NewestTurn {
    pub id: TurnId,
    /// The caller that the turn is billed to; see
    /// [`TurnOptions::caller`](crate::model::TurnOptions).
    pub caller: Option<Arc<str>>,
    pub stage: TurnStage,
}

/// State of the newest turn of a session, as far as it matters for submitting the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStage {
    Finished,
    AwaitingToolResult,
    Busy,
}

impl SessionCache {
    pub(super) fn new(session: Arc<SessionRecord>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(CachedSession { session, newest_turn: None })))
    }

    pub(super) fn set_session(&self, session: Arc<SessionRecord>) {
        lock(&self.0).session = session;
    }

    pub(super) fn set_newest_turn(&self, log: &TurnLog, caller: Option<Arc<str>>) {
        let newest = CachedTurn { id: log.turn, caller, progress: log.subscribe_progress() };
        lock(&self.0).newest_turn = Some(newest);
    }

    /// Makes the store answer for the newest turn again.
    pub(super) fn clear_newest_turn(&self) {
        lock(&self.0).newest_turn = None;
    }

    fn snapshot(&self) -> CachedSession {
        lock(&self.0).clone()
    }
}

impl CachedTurn {
    fn is_over(&self) -> bool {
        self.progress.borrow().finished
    }
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

/// Names of the sessions that have an actor in this process.
#[derive(Debug, Default)]
pub(super) struct SessionNames(Mutex<HashMap<ExternalName, SessionId>>);

impl SessionNames {
    pub(super) fn get(&self, name: &ExternalName) -> Option<SessionId> {
        lock(&self.0).get(name).copied()
    }

    pub(super) fn insert(&self, name: &ExternalName, session: SessionId) {
        lock(&self.0).insert(name.clone(), session);
    }

    pub(super) fn remove_session(&self, session: SessionId) {
        lock(&self.0).retain(|_, named| *named != session);
    }
}

impl Engine {
    /// Returns the session as its next turn will find it. The title may be outdated.
    pub async fn cached_session(&self, id: SessionId) -> Result<Arc<SessionRecord>, EngineError> {
        match self.shared.existing_actor(id) {
            Some(actor) => Ok(actor.cache.snapshot().session),
            None => self.session(id).await.map(Arc::new),
        }
    }

    /// Returns the session with its newest turn, or `None` if it has no turn.
    pub async fn newest_turn(
        &self,
        id: SessionId,
    ) -> Result<Option<(Arc<SessionRecord>, NewestTurn)>, EngineError> {
        if let Some(actor) = self.shared.existing_actor(id) {
            let facts = actor.cache.snapshot();
            if let Some(here) = facts.newest_turn {
                let newest = self.load_cached_turn(here).await?;
                return Ok(Some((facts.session, newest)));
            }
        }
        let session = self.cached_session(id).await?;
        let newest = self.turns(Some(id), Page::first(1)).await?;
        Ok(newest.into_iter().next().map(|turn| {
            let newest = NewestTurn {
                id: turn.id,
                stage: TurnStage::of(&turn.state),
                caller: turn.options.caller,
            };
            (session, newest)
        }))
    }

    async fn load_cached_turn(&self, here: CachedTurn) -> Result<NewestTurn, EngineError> {
        let stage = if here.is_over() {
            TurnStage::Finished
        } else {
            // No record: the turn has just started and is not committed yet.
            let record = self.shared.store.turn(here.id).await?;
            record.map_or(TurnStage::Busy, |turn| TurnStage::of(&turn.state))
        };
        Ok(NewestTurn { id: here.id, caller: here.caller, stage })
    }

    pub async fn find_by_name(
        &self,
        name: &ExternalName,
    ) -> Result<Option<SessionId>, EngineError> {
        let has_actor = |id: &SessionId| self.shared.existing_actor(*id).is_some();
        if let Some(id) = self.shared.names.get(name).filter(has_actor) {
            return Ok(Some(id));
        }
        let named = self.shared.store.find_by_name(name).await?;
        if let Some(id) = named.filter(has_actor) {
            self.shared.names.insert(name, id);
        }
        Ok(named)
    }
}
