//! State shared by the engine and its actors: the actors, the turn logs and the pending approvals.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{broadcast, oneshot};

use super::{
    facade::{EngineError, Limits, Parts},
    known::Names,
    live::LiveAgents,
    log::{LogCounts, Logs, TurnLog},
    quota::Quotas,
    session::{Command, SessionHandle},
};
use crate::{
    model::{ApprovalId, Failure, FailureKind, SessionId, TurnId},
    ports::{Clock, Executor, Lease, Store},
    task::Tasks,
};

/// Number of changes a subscriber may lag behind before it misses some.
const CHANGES: usize = 1024;

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) executors: Vec<Arc<dyn Executor>>,
    pub(super) limits: Limits,
    pub(super) tasks: Tasks,
    pub(super) live: LiveAgents,
    pub(super) quotas: Quotas,
    /// Ids of sessions that have changed.
    pub(super) changes: broadcast::Sender<SessionId>,
    pub(super) names: Names,
    actors: Mutex<HashMap<SessionId, SessionHandle>>,
    starting: tokio::sync::Mutex<()>,
    /// Logs of turns that are queued or running in this process, or have just ended.
    turns: Mutex<Logs>,
    /// The session that each pending approval belongs to.
    pending: Mutex<HashMap<ApprovalId, SessionId>>,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            live: LiveAgents::new(parts.limits.max_live),
            quotas: Quotas::default(),
            changes: broadcast::Sender::new(CHANGES),
            store: parts.store,
            clock: parts.clock,
            executors: parts.executors,
            limits: parts.limits,
            tasks: parts.tasks,
            names: Names::default(),
            actors: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            pending: Mutex::default(),
        }
    }

    pub(super) fn executor(&self, name: &str) -> Result<&Arc<dyn Executor>, Failure> {
        self.executors.iter().find(|executor| executor.name() == name).ok_or_else(|| {
            let known: Vec<_> = self.executors.iter().map(|executor| executor.name()).collect();
            Failure::new(FailureKind::Invalid, format!("there is no executor `{name}`"))
                .with_hint(format!("use one of: {}", known.join(", ")))
        })
    }

    /// Returns the session's actor, and starts one if there is none.
    pub(super) async fn actor(
        self: &Arc<Self>,
        session: SessionId,
    ) -> Result<SessionHandle, EngineError> {
        // Start one actor at a time: a second lease for the same session would invalidate the
        // first.
        let _one = self.starting.lock().await;
        let known = self.actors().get(&session).cloned();
        match known {
            Some(actor) if !actor.is_ending() => return Ok(actor),
            Some(ending) => ending.ended().await,
            None => {}
        }
        if self.tasks.stop_token().is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let record = self.store.session(session).await?.ok_or(EngineError::NotFound("session"))?;
        let lease = self.store.acquire(session).await?;
        let parked = self.store.parked_turns(Some(session)).await?;
        let actor = SessionHandle::start(Arc::clone(self), record, lease, parked);
        self.actors().insert(session, actor.clone());
        Ok(actor)
    }

    pub(super) fn existing_actor(&self, session: SessionId) -> Option<SessionHandle> {
        self.actors().get(&session).filter(|actor| !actor.is_ending()).cloned()
    }

    /// Tells the subscribers that a session has changed. There may be none.
    pub(super) fn changed(&self, session: SessionId) {
        let _nobody = self.changes.send(session);
    }

    /// Ends the session's actor, if this process has one, and returns its lease.
    pub(super) async fn end_actor(&self, session: SessionId) -> Option<Lease> {
        let actor = self.existing_actor(session)?;
        let (reply, lease) = oneshot::channel();
        actor.send(Command::End { reply }).await.ok()?;
        lease.await.ok()
    }

    pub(super) fn forget_actor(&self, session: SessionId) {
        self.actors().remove(&session);
        self.names.forget(session);
    }

    pub(super) fn keep_log(&self, log: &Arc<TurnLog>) {
        lock(&self.turns).begin(log);
    }

    pub(super) fn forget_log(&self, turn: TurnId) {
        lock(&self.turns).forget(turn);
    }

    pub(super) fn end_log(&self, turn: TurnId) {
        lock(&self.turns).end(turn);
    }

    pub(super) fn log(&self, turn: TurnId) -> Option<Arc<TurnLog>> {
        lock(&self.turns).find(turn)
    }

    pub(super) fn count_logs(&self) -> LogCounts {
        lock(&self.turns).count()
    }

    pub(super) fn count_actors(&self) -> usize {
        self.actors().len()
    }

    fn actors(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        lock(&self.actors)
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, HashMap<ApprovalId, SessionId>> {
        lock(&self.pending)
    }
}

/// Ignores poisoning: the values are changed by single inserts, removals and replacements, so they
/// are consistent after a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
