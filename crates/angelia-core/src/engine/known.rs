//! What is known of a session without asking the store. An actor here owns it, so nobody elsewhere
//! can give it a turn, change how it is launched, or remove it and so free its name.

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

/// Kept by the session's actor.
#[derive(Debug)]
pub(super) struct Known(Mutex<Facts>);

#[derive(Clone, Debug)]
struct Facts {
    session: Arc<SessionRecord>,
    /// `None`: it has had no turn since its actor is here.
    newest: Option<NewestHere>,
}

#[derive(Clone, Debug)]
struct NewestHere {
    id: TurnId,
    caller: Option<Arc<str>>,
    progress: watch::Receiver<Progress>,
}

/// The newest turn of a session.
#[derive(Clone, Debug)]
pub struct Newest {
    pub id: TurnId,
    /// Whose it is.
    pub caller: Option<Arc<str>>,
    pub stage: Stage,
}

/// How far the newest turn of a session is, as the next one sees it.
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

    /// What became of the newest turn is for the store to say.
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

/// The names of sessions that have an actor here.
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
    /// The session as its next turn finds it. Its title may be an older one.
    pub async fn to_continue(&self, id: SessionId) -> Result<Arc<SessionRecord>, EngineError> {
        match self.shared.existing_actor(id) {
            Some(actor) => Ok(actor.known.facts().session),
            None => self.session(id).await.map(Arc::new),
        }
    }

    /// The same with the newest turn; `None`: there is none.
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
            // It may have begun a moment ago, and not be on record yet.
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
