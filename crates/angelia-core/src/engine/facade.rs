//! What frontends call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    live::LiveAgents,
    log::{Logs, TurnLog, Watch},
    once::RequestKey,
    session::{Command, SessionHandle},
};
use crate::{
    model::{
        ApprovalId, ApprovalRecord, Content, Decision, ExternalName, Failure, Seq, SessionId,
        SessionRecord, SessionSpec, ToolId, Turn, TurnId, TurnOptions, TurnRecord, TurnState,
    },
    ports::{Approvals, Clock, Executor, Page, Store, StoreError},
    task::Tasks,
};

/// Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) executors: Vec<Arc<dyn Executor>>,
    pub(super) limits: Limits,
    pub(super) tasks: Tasks,
    pub(super) live: LiveAgents,
    actors: Mutex<HashMap<SessionId, SessionHandle>>,
    starting: tokio::sync::Mutex<()>,
    /// Turns that are queued or running here, or have just ended.
    turns: Mutex<Logs>,
    /// Which session waits for which approval.
    pending: Mutex<HashMap<ApprovalId, SessionId>>,
}

/// What an engine is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub executors: Vec<Arc<dyn Executor>>,
    pub limits: Limits,
    pub tasks: Tasks,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long an idle agent is kept.
    pub idle_ttl: Duration,
    /// How many agents may be alive.
    pub max_live: usize,
    /// How many turns may wait in one session.
    pub max_queued_turns: usize,
    /// How long an interrupted agent may take to say that it has stopped.
    pub interrupt_grace: Duration,
    /// How long a closing agent may take before it is killed.
    pub close_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle_ttl: Duration::from_mins(10),
            max_live: 64,
            max_queued_turns: 16,
            interrupt_grace: Duration::from_secs(10),
            close_grace: Duration::from_secs(3),
        }
    }
}

#[derive(Debug)]
pub struct NewSession {
    pub spec: SessionSpec,
    pub title: Option<Arc<str>>,
    pub name: Option<ExternalName>,
}

/// A turn that was accepted.
#[derive(Debug)]
pub struct Submitted {
    pub turn: TurnId,
    /// `false`: it waits for another turn of the session.
    pub running: bool,
    /// It was submitted before, under the same key.
    pub repeats: bool,
    /// From its first event.
    pub watch: Watch,
}

/// What an actor did with a submitted turn.
pub(super) enum Accepted {
    Running,
    Queued,
    /// It is this turn, which was submitted before.
    Known(TurnId),
}

/// What became of words for a running turn.
#[derive(Debug)]
pub enum Steering {
    /// The running agent has them.
    Passed,
    /// They are the session's next turn.
    Queued(Submitted),
}

/// What a session's actor did with words for its running turn.
pub(super) enum Steered {
    Passed,
    NotTaken(Vec<Content>),
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("{limit} turns are waiting in this session already; try again when one has ended")]
    QueueFull { limit: usize },
    #[error("the key of this request was used for another one before (turn {0}); use a new key")]
    KeyReused(TurnId),
    #[error("the turn is not running here any more")]
    NotRunning,
    #[error("the approval has been decided already, or its turn is over")]
    NotPending,
    #[error("angelia is shutting down; try again when it is back")]
    ShuttingDown,
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Engine {
    pub fn new(parts: Parts) -> Self {
        let live = LiveAgents::new(parts.limits.max_live);
        Self {
            shared: Arc::new(Shared {
                store: parts.store,
                clock: parts.clock,
                executors: parts.executors,
                limits: parts.limits,
                tasks: parts.tasks,
                live,
                actors: Mutex::default(),
                starting: tokio::sync::Mutex::default(),
                turns: Mutex::default(),
                pending: Mutex::default(),
            }),
        }
    }

    pub fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.shared.executors
    }

    /// A new session; with a name, the session that has the name already, if there is one.
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
                // Somebody was faster: the name means their session, and ours is not needed.
                store.delete_session(session.id).await?;
                return self.session(named).await;
            }
        }
        Ok(session)
    }

    pub async fn session(&self, id: SessionId) -> Result<SessionRecord, EngineError> {
        self.shared
            .store
            .session(id)
            .await?
            .ok_or(EngineError::NotFound("session"))
    }

    pub async fn sessions(&self, page: Page) -> Result<Vec<SessionRecord>, EngineError> {
        Ok(self.shared.store.sessions(page).await?)
    }

    pub async fn named(&self, name: &ExternalName) -> Result<Option<SessionId>, EngineError> {
        Ok(self.shared.store.named(name).await?)
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
                    return Ok(SessionRecord {
                        revision,
                        ..session
                    });
                }
                // A turn of the session wrote in between: its change stays, ours comes after.
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A new session that continues from where this one stands now.
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
        Ok(session)
    }

    /// Removes a session, its record, and the agent's own transcript of it. A running turn is
    /// interrupted first.
    pub async fn delete_session(&self, id: SessionId) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        // Held by another process: refuse before anything is removed.
        let lease = match self.shared.end_actor(id).await {
            Some(lease) => lease,
            None => self.shared.store.acquire(id).await?,
        };
        if let (Ok(executor), Some(native)) = (
            self.shared.executor(&session.spec.executor),
            &session.native,
        ) {
            executor.forget(&session.spec, native).await?;
        }
        self.shared.store.delete_session(id).await?;
        self.shared.store.release(lease).await?;
        Ok(())
    }

    /// Accepts a turn and returns at once; its events are read from the watch.
    pub async fn submit(
        &self,
        session: SessionId,
        input: Vec<Content>,
        options: TurnOptions,
    ) -> Result<Submitted, EngineError> {
        self.submit_once(session, input, options, None).await
    }

    /// Like [`Engine::submit`], but a request that was made before under the same key becomes the
    /// turn of that request, running or over, and is shown from its first event.
    pub async fn submit_once(
        &self,
        session: SessionId,
        input: Vec<Content>,
        options: TurnOptions,
        key: Option<RequestKey>,
    ) -> Result<Submitted, EngineError> {
        let claim = key.map(|key| key.claim(self.shared.clock.now(), session, &input));
        let id = TurnId::from_uuid(self.shared.clock.fresh_uuid());
        let log = TurnLog::new(id, session);
        let watch = Watch::live(Arc::clone(&log), 0);
        let mut turn = Turn {
            id,
            session,
            input,
            options,
        };
        loop {
            let (reply, answer) = oneshot::channel();
            let (log, claim) = (Arc::clone(&log), claim.clone());
            let command = Command::Submit {
                turn,
                log,
                claim,
                reply,
            };
            let actor = match self.shared.existing_actor(session) {
                Some(actor) => actor,
                None => self.shared.actor(session).await?,
            };
            match actor.send(command).await {
                Ok(()) => {
                    let accepted = answer.await.map_err(|_| EngineError::ShuttingDown)??;
                    return match accepted {
                        Accepted::Known(known) => self.known(known).await,
                        Accepted::Running => Ok(Submitted {
                            turn: id,
                            running: true,
                            repeats: false,
                            watch,
                        }),
                        Accepted::Queued => Ok(Submitted {
                            turn: id,
                            running: false,
                            repeats: false,
                            watch,
                        }),
                    };
                }
                // The actor had just decided to end: start another one.
                Err(Command::Submit { turn: returned, .. }) => turn = returned,
                Err(_) => return Err(EngineError::ShuttingDown),
            }
        }
    }

    /// A turn that an earlier request began.
    async fn known(&self, turn: TurnId) -> Result<Submitted, EngineError> {
        let watch = self.watch(turn, 0).await?;
        let running = matches!(self.turn(turn).await?.state, TurnState::Running);
        Ok(Submitted {
            turn,
            running,
            repeats: true,
            watch,
        })
    }

    pub async fn turn(&self, id: TurnId) -> Result<TurnRecord, EngineError> {
        self.shared
            .store
            .turn(id)
            .await?
            .ok_or(EngineError::NotFound("turn"))
    }

    pub async fn turns(
        &self,
        session: Option<SessionId>,
        page: Page,
    ) -> Result<Vec<TurnRecord>, EngineError> {
        Ok(self.shared.store.turns(session, page).await?)
    }

    /// The events of a turn with a number above `after`, live or from the store.
    pub async fn watch(&self, turn: TurnId, after: Seq) -> Result<Watch, EngineError> {
        if let Some(log) = self.shared.log(turn) {
            return Ok(Watch::live(log, after));
        }
        self.turn(turn).await?;
        Ok(Watch::stored(Arc::clone(&self.shared.store), turn, after))
    }

    /// Asks a turn to stop: by protocol, or with `kill` by ending its process. A turn that still
    /// waits in the queue ends at once.
    pub async fn interrupt(&self, turn: TurnId, kill: bool) -> Result<(), EngineError> {
        self.tell_running(turn, Command::Interrupt { turn, kill })
            .await
            .map(drop)
    }

    /// Passes a command to the actor that runs a turn, and returns that turn's session.
    async fn tell_running(&self, turn: TurnId, command: Command) -> Result<SessionId, EngineError> {
        let log = self.shared.log(turn).filter(|log| !log.is_finished());
        let Some(log) = log else {
            self.turn(turn).await?;
            return Err(EngineError::NotRunning);
        };
        let actor = self
            .shared
            .existing_actor(log.session)
            .ok_or(EngineError::NotRunning)?;
        actor
            .send(command)
            .await
            .map_err(|_| EngineError::NotRunning)?;
        Ok(log.session)
    }

    /// Adds words to a running turn: the agent takes them up after its next tool where it can,
    /// else they become the next turn.
    pub async fn steer(
        &self,
        turn: TurnId,
        input: Vec<Content>,
        options: TurnOptions,
    ) -> Result<Steering, EngineError> {
        let (reply, answer) = oneshot::channel();
        let session = self
            .tell_running(turn, Command::Steer { turn, input, reply })
            .await?;
        match answer.await.map_err(|_| EngineError::NotRunning)?? {
            Steered::Passed => Ok(Steering::Passed),
            Steered::NotTaken(input) => {
                let submitted = self.submit(session, input, options).await?;
                Ok(Steering::Queued(submitted))
            }
        }
    }

    /// Gives the running turn the result of one of the caller's own tools.
    pub async fn give_tool_result(
        &self,
        turn: TurnId,
        id: ToolId,
        ok: bool,
        content: Vec<Content>,
    ) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::ToolResult {
            turn,
            id,
            ok,
            content,
            reply,
        };
        self.tell_running(turn, command).await?;
        answer.await.map_err(|_| EngineError::NotRunning)?
    }

    /// What was asked of people, newest first.
    pub async fn approvals(
        &self,
        which: Approvals,
        page: Page,
    ) -> Result<Vec<ApprovalRecord>, EngineError> {
        Ok(self.shared.store.approvals(which, page).await?)
    }

    pub async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, EngineError> {
        // A page that begins with it.
        let next = id.as_uuid().as_u128().checked_add(1);
        let page = Page {
            limit: 1,
            before: next.map(uuid::Uuid::from_u128),
        };
        let found = self.approvals(Approvals::All, page).await?.into_iter();
        let mut found = found.filter(|record| record.approval.id == id);
        found.next().ok_or(EngineError::NotFound("approval"))
    }

    /// Decides an approval; the first entitled answer wins.
    pub async fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> Result<(), EngineError> {
        let session = self.shared.pending().get(&approval).copied();
        let session = session.ok_or(EngineError::NotPending)?;
        let actor = self
            .shared
            .existing_actor(session)
            .ok_or(EngineError::NotPending)?;
        let (reply, answer) = oneshot::channel();
        let sent = actor
            .send(Command::Decide {
                approval,
                decision,
                reply,
            })
            .await;
        sent.map_err(|_| EngineError::NotPending)?;
        answer.await.map_err(|_| EngineError::NotPending)?
    }

    /// Ends every turn as interrupted, closes every agent, and waits for all of it.
    pub async fn shutdown(&self) {
        let limits = &self.shared.limits;
        let grace = limits.interrupt_grace + limits.close_grace * 3;
        if !self.shared.tasks.shutdown(grace).await {
            tracing::warn!("some sessions did not end in time");
        }
        for executor in &self.shared.executors {
            executor.close().await;
        }
        self.shared.store.close().await;
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn executor(&self, name: &str) -> Result<&Arc<dyn Executor>, Failure> {
        self.executors
            .iter()
            .find(|executor| executor.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = self
                    .executors
                    .iter()
                    .map(|executor| executor.name())
                    .collect();
                Failure::new(
                    crate::model::FailureKind::Invalid,
                    format!("there is no executor `{name}`"),
                )
                .with_hint(format!("use one of: {}", known.join(", ")))
            })
    }

    /// The session's actor, started if need be.
    async fn actor(self: &Arc<Self>, session: SessionId) -> Result<SessionHandle, EngineError> {
        // One at a time: a second lease for the same session would void the first.
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
        let record = self
            .store
            .session(session)
            .await?
            .ok_or(EngineError::NotFound("session"))?;
        let lease = self.store.acquire(session).await?;
        let actor = SessionHandle::start(Arc::clone(self), record, lease);
        self.actors().insert(session, actor.clone());
        Ok(actor)
    }

    fn existing_actor(&self, session: SessionId) -> Option<SessionHandle> {
        self.actors()
            .get(&session)
            .filter(|actor| !actor.is_ending())
            .cloned()
    }

    /// Ends the session's actor, if it has one here, and takes its lease over.
    async fn end_actor(&self, session: SessionId) -> Option<crate::ports::Lease> {
        let actor = self.existing_actor(session)?;
        let (reply, lease) = oneshot::channel();
        actor.send(Command::End { reply }).await.ok()?;
        lease.await.ok()
    }

    pub(super) fn forget_actor(&self, session: SessionId) {
        self.actors().remove(&session);
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

    fn log(&self, turn: TurnId) -> Option<Arc<TurnLog>> {
        lock(&self.turns).find(turn)
    }

    fn actors(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        lock(&self.actors)
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, HashMap<ApprovalId, SessionId>> {
        lock(&self.pending)
    }
}

/// These maps are changed by single inserts and removals, so they are whole whatever panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
