//! State shared by the engine and its actors: the actors themselves, the turn logs and the pending
//! approvals.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{OwnedMutexGuard, broadcast, oneshot, watch},
    time::Instant,
};

use super::{
    agent_slots::AgentSlots,
    changes::{Announcer, EngineChange},
    drain::DrainState,
    facade::{EngineError, EngineLimits, EngineParts},
    quota::{ExhaustedQuotas, ReportedQuotas},
    review::RunningReviews,
    session_actor::SessionHandle,
    session_command::SessionCommand,
    spend::SpendLedger,
    turn_log::{LogCounts, TurnLog, TurnLogs},
    unwritten_end::UnwrittenEnd,
};
use crate::{
    model::{ApprovalId, Failure, FailureKind, SessionId, TurnId, TurnState},
    ports::{Clock, EditDiffer, Executor, Lease, PathResolver, SessionFiles, Store, StoreError},
    task::TaskGroup,
};

/// Number of changes by which a subscriber may lag before it misses some.
const MAX_CHANGE_LAG: usize = 1024;

const MIN_WRITE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct EngineState {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) paths: Arc<dyn PathResolver>,
    pub(super) edits: Arc<dyn EditDiffer>,
    pub(super) session_files: Arc<dyn SessionFiles>,
    pub(super) executors: Vec<Arc<dyn Executor>>,
    pub(super) limits: EngineLimits,
    pub(super) tasks: TaskGroup,
    pub(super) agent_slots: AgentSlots,
    pub(super) quotas: ExhaustedQuotas,
    pub(super) reported_quotas: ReportedQuotas,
    pub(super) spend: Arc<SpendLedger>,
    /// Set while a task purges deleted words from the search index.
    pub(super) is_purging: AtomicBool,
    pub(super) announcer: Announcer,
    /// Ids of sessions that have changed.
    pub(super) changes: broadcast::Sender<SessionId>,
    /// Incremented with each change to a schedule.
    pub(super) schedule_changes: watch::Sender<u64>,
    pub(super) drain: DrainState,
    pub(super) reviews: RunningReviews,
    actors: Mutex<HashMap<SessionId, SessionHandle>>,
    /// One lock per session whose actor is being started.
    start_locks: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    /// Logs of the turns that are queued or running in this process, or that have just ended.
    logs: Mutex<TurnLogs>,
    /// Number of turn ends that were shown, but never written because the store kept failing.
    lost_ends: AtomicUsize,
    /// Turn ends that were shown but are not written yet.
    kept_ends: Mutex<HashMap<TurnId, TurnState>>,
    /// Time and result of the last [`EngineState::check_writable`].
    last_write_check: tokio::sync::Mutex<Option<(Instant, Result<(), StoreError>)>>,
    /// The session that each pending approval belongs to.
    pending_approvals: Mutex<HashMap<ApprovalId, SessionId>>,
}

impl EngineState {
    pub(super) fn new(parts: EngineParts) -> Self {
        let announcer = Announcer::new();
        Self {
            agent_slots: AgentSlots::new(parts.limits.max_live_agents, announcer.clone()),
            announcer,
            quotas: ExhaustedQuotas::default(),
            reported_quotas: ReportedQuotas::default(),
            spend: Arc::default(),
            is_purging: AtomicBool::new(false),
            changes: broadcast::Sender::new(MAX_CHANGE_LAG),
            schedule_changes: watch::Sender::new(0),
            drain: DrainState::new(),
            reviews: RunningReviews::default(),
            store: parts.store,
            clock: parts.clock,
            paths: parts.paths,
            edits: parts.edits,
            session_files: parts.session_files,
            executors: parts.executors,
            limits: parts.limits,
            tasks: parts.tasks,
            actors: Mutex::default(),
            start_locks: Mutex::default(),
            logs: Mutex::default(),
            lost_ends: AtomicUsize::new(0),
            kept_ends: Mutex::default(),
            last_write_check: tokio::sync::Mutex::default(),
            pending_approvals: Mutex::default(),
        }
    }

    pub(super) fn executor(&self, name: &str) -> Result<&Arc<dyn Executor>, Failure> {
        self.executors.iter().find(|executor| executor.name() == name).ok_or_else(|| {
            let known: Vec<_> = self.executors.iter().map(|executor| executor.name()).collect();
            Failure::new(FailureKind::Invalid, format!("there is no executor `{name}`"))
                .with_hint(format!("use one of: {}", known.join(", ")))
        })
    }

    /// Returns the session's actor, starting one if there is none.
    pub(super) async fn get_or_start_actor(
        self: &Arc<Self>,
        session: SessionId,
    ) -> Result<SessionHandle, EngineError> {
        // Start only one actor per session at a time, because a second lease for the same session
        // would invalidate the first. Other sessions do not wait.
        let _start = self.lock_start(session).await;
        let known = self.actors.lock().get(&session).cloned();
        match known {
            Some(actor) if !actor.is_ending() => return Ok(actor),
            Some(ending) => ending.wait_ended().await,
            None => {}
        }
        if self.tasks.stop_token().is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let record = self.store.session(session).await?.ok_or(EngineError::NotFound("session"))?;
        let lease = self.store.acquire_lease(session).await?;
        let left = self.store.resumable_turns(Some(session)).await?;
        let actor = SessionHandle::start(Arc::clone(self), record, lease, left);
        self.actors.lock().insert(session, actor.clone());
        Ok(actor)
    }

    /// Waits until no other task is starting an actor of this session.
    async fn lock_start(&self, session: SessionId) -> StartGuard<'_> {
        let lock = Arc::clone(self.start_locks.lock().entry(session).or_default());
        // Create the guard before waiting, so that the lock is removed even if the caller is
        // cancelled.
        let mut guard = StartGuard { state: self, session, held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }

    pub(super) fn existing_actor(&self, session: SessionId) -> Option<SessionHandle> {
        self.actors.lock().get(&session).filter(|actor| !actor.is_ending()).cloned()
    }

    /// Tells the subscribers, if any, that a session has changed.
    pub(super) fn notify_changed(&self, session: SessionId) {
        let _nobody = self.changes.send(session);
        self.announce(EngineChange::Session(session));
    }

    pub(super) fn announce(&self, change: EngineChange) {
        self.announcer.announce(change);
    }

    /// Ends the session's actor, if this process has one, and returns its lease.
    pub(super) async fn end_actor(&self, session: SessionId) -> Option<Lease> {
        let actor = self.existing_actor(session)?;
        let (reply, lease) = oneshot::channel();
        actor.send(SessionCommand::End { reply }).await.ok()?;
        lease.await.ok()
    }

    pub(super) fn remove_actor(&self, session: SessionId) {
        self.actors.lock().remove(&session);
    }

    pub(super) fn insert_log(&self, log: &Arc<TurnLog>) {
        self.logs.lock().insert(log);
    }

    pub(super) fn remove_log(&self, turn: TurnId) {
        self.logs.lock().remove(turn);
    }

    pub(super) fn finish_log(&self, turn: TurnId) {
        self.logs.lock().finish(turn);
    }

    /// Returns the turns that are queued or running in this process, and those whose end is not
    /// written yet.
    pub(super) fn open_turn_ids(&self) -> Vec<TurnId> {
        self.logs.lock().open_turn_ids()
    }

    pub(super) fn find_log(&self, turn: TurnId) -> Option<Arc<TurnLog>> {
        self.logs.lock().find(turn)
    }

    pub(super) fn insert_kept_end(&self, end: &UnwrittenEnd) {
        self.kept_ends.lock().extend(end.state().map(|state| (end.turn, state)));
    }

    pub(super) fn remove_kept_end(&self, turn: TurnId) {
        self.kept_ends.lock().remove(&turn);
    }

    pub(super) fn count_lost_end(&self) {
        self.lost_ends.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost_ends(&self) -> usize {
        self.lost_ends.load(Ordering::Relaxed)
    }

    /// Returns the ends that are not written yet. Callers must read these before the store: an end
    /// that is written in between then appears in both rather than in neither.
    pub(super) fn kept_ends(&self) -> HashMap<TurnId, TurnState> {
        self.kept_ends.lock().clone()
    }

    /// Checks that the store can be written and that no turn end is waiting to be written. Runs the
    /// check at most once a second, however many callers there are.
    pub(super) async fn check_writable(&self) -> Result<(), StoreError> {
        let mut last = self.last_write_check.lock().await;
        let checked = match &*last {
            Some((at, result)) if at.elapsed() < MIN_WRITE_CHECK_INTERVAL => result.clone(),
            _ => {
                let result = self.store.check_writable().await;
                *last = Some((Instant::now(), result.clone()));
                result
            }
        };
        checked?;
        match self.kept_ends.lock().len() {
            0 => Ok(()),
            count => Err(StoreError::Failed {
                message: format!("the ends of {count} turns could not be recorded yet"),
            }),
        }
    }

    pub(super) fn count_logs(&self) -> LogCounts {
        self.logs.lock().count()
    }

    pub(super) fn count_actors(&self) -> usize {
        self.actors.lock().len()
    }

    pub(super) fn pending_approvals(&self) -> MutexGuard<'_, HashMap<ApprovalId, SessionId>> {
        self.pending_approvals.lock()
    }
}

/// Holds the start lock of a session. The last holder removes the lock from the map.
struct StartGuard<'a> {
    state: &'a EngineState,
    session: SessionId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut locks = self.state.start_locks.lock();
        // Only the map still refers to the lock, so no other task holds it or waits for it.
        if locks.get(&self.session).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.session);
        }
    }
}
