//! Answers about a session without asking the store. The actor in this process owns the session, so
//! no other process can add a turn, change its specification, or delete it and free its name.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use super::{
    facade::{Engine, EngineError},
    log::{Progress, TurnLog},
    shared::lock,
};
use crate::{
    model::{ExternalName, SessionId, SessionRecord, TurnId, TurnState},
    ports::Page,
};

/// The latest record and turn of a session, updated by its actor.
#[derive(Debug)]
pub(super) struct Known(Mutex<Facts>);

#[derive(Clone, Debug)]
struct Facts {
    session: Arc<SessionRecord>,
    /// `None`: no turn since the actor started.
    newest: Option<NewestHere>,
}

#[derive(Clone, Debug)]
struct NewestHere {
    id: TurnId,
    caller: Option<Arc<str>>,
    progress: watch::Receiver<Progress>,
}

#[derive(Clone, Debug)]
pub struct Newest {
    pub id: TurnId,
    /// The caller that the turn is billed to; see
    /// [`TurnOptions::caller`](crate::model::TurnOptions).
    pub caller: Option<Arc<str>>,
    pub stage: Stage,
}

/// State of the newest turn of a session, as far as it matters for submitting the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Over,
    AwaitsToolResult,
    Busy,
}

impl Known {
    pub(super) fn new(session: Arc<SessionRecord>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Facts { session, newest: None })))
    }

    pub(super) fn put(&self, session: Arc<SessionRecord>) {
        lock(&self.0).session = session;
    }

    pub(super) fn begin(&self, log: &TurnLog, caller: Option<Arc<str>>) {
        let newest = NewestHere { id: log.turn, caller, progress: log.progress() };
        lock(&self.0).newest = Some(newest);
    }

    /// Makes the store answer for the newest turn again.
    pub(super) fn forget_newest(&self) {
        lock(&self.0).newest = None;
    }

    fn facts(&self) -> Facts {
        lock(&self.0).clone()
    }
}

impl NewestHere {
    fn is_over(&self) -> bool {
        self.progress.borrow().finished
    }
}

impl Stage {
    const fn of(state: &TurnState) -> Self {
        match state {
            TurnState::Finished { .. } => Self::Over,
            TurnState::AwaitingToolResult => Self::AwaitsToolResult,
            _ => Self::Busy,
        }
    }
}

/// Names of the sessions that have an actor in this process.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashMap<ExternalName, SessionId>>);

impl Names {
    pub(super) fn get(&self, name: &ExternalName) -> Option<SessionId> {
        lock(&self.0).get(name).copied()
    }

    pub(super) fn put(&self, name: &ExternalName, session: SessionId) {
        lock(&self.0).insert(name.clone(), session);
    }

    pub(super) fn forget(&self, session: SessionId) {
        lock(&self.0).retain(|_, named| *named != session);
    }
}

impl Engine {
    /// Returns the session as its next turn will find it. The title may be outdated.
    pub async fn to_continue(&self, id: SessionId) -> Result<Arc<SessionRecord>, EngineError> {
        match self.shared.existing_actor(id) {
            Some(actor) => Ok(actor.known.facts().session),
            None => self.session(id).await.map(Arc::new),
        }
    }

    /// Returns the session with its newest turn, or `None` if it has no turn.
    pub async fn newest(
        &self,
        id: SessionId,
    ) -> Result<Option<(Arc<SessionRecord>, Newest)>, EngineError> {
        if let Some(actor) = self.shared.existing_actor(id) {
            let facts = actor.known.facts();
            if let Some(here) = facts.newest {
                let newest = self.newest_here(here).await?;
                return Ok(Some((facts.session, newest)));
            }
        }
        let session = self.to_continue(id).await?;
        let newest = self.turns(Some(id), Page::first(1)).await?;
        Ok(newest.into_iter().next().map(|turn| {
            let newest =
                Newest { id: turn.id, stage: Stage::of(&turn.state), caller: turn.options.caller };
            (session, newest)
        }))
    }

    async fn newest_here(&self, here: NewestHere) -> Result<Newest, EngineError> {
        let stage = if here.is_over() {
            Stage::Over
        } else {
            // No record: the turn has just started and is not committed yet.
            let record = self.shared.store.turn(here.id).await?;
            record.map_or(Stage::Busy, |turn| Stage::of(&turn.state))
        };
        Ok(Newest { id: here.id, caller: here.caller, stage })
    }

    pub async fn named(&self, name: &ExternalName) -> Result<Option<SessionId>, EngineError> {
        let has_actor = |id: &SessionId| self.shared.existing_actor(*id).is_some();
        if let Some(id) = self.shared.names.get(name).filter(has_actor) {
            return Ok(Some(id));
        }
        let named = self.shared.store.named(name).await?;
        if let Some(id) = named.filter(has_actor) {
            self.shared.names.put(name, id);
        }
        Ok(named)
    }
}
