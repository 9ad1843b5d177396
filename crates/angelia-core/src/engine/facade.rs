//! What frontends call.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::{
    log::{TurnLog, Watch},
    once::RequestKey,
    session::{Command, Submit},
    shared::Shared,
};
use crate::{
    model::{
        ApprovalId, ApprovalRecord, Content, Decision, ExternalName, Failure, Seq, SessionId,
        SessionSpec, ToolId, Turn, TurnId, TurnOptions, TurnRecord, TurnState,
    },
    ports::{Approvals, Clock, Committed, Executor, HistoryNote, Page, Store, StoreError},
    task::Tasks,
};

/// Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
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

/// A turn to be accepted.
#[derive(Clone, Debug)]
pub struct Submission {
    pub session: SessionId,
    pub input: Vec<Content>,
    pub options: TurnOptions,
    /// A request that was made before under the same key becomes the turn of that request,
    /// running or over, and is shown from its first event.
    pub key: Option<RequestKey>,
    /// A new turn is found by this hash from now on ([`Engine::with_history`]).
    pub found_by: Option<[u8; 32]>,
    /// Whoever asks follows the events, and knows the turn by nothing else: a turn that runs at
    /// once is shown before it is on record. If it cannot be recorded, it fails.
    pub follows: bool,
}

impl Submission {
    pub const fn new(session: SessionId, input: Vec<Content>, options: TurnOptions) -> Self {
        Self { session, input, options, key: None, found_by: None, follows: false }
    }
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
        Self { shared: Arc::new(Shared::new(parts)) }
    }

    pub fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.shared.executors
    }

    /// Accepts a turn and returns at once; its events are read from the watch.
    pub async fn submit(
        &self,
        session: SessionId,
        input: Vec<Content>,
        options: TurnOptions,
    ) -> Result<Submitted, EngineError> {
        self.submit_as(Submission::new(session, input, options)).await
    }

    /// Like [`Engine::submit`], at most once.
    pub async fn submit_once(
        &self,
        session: SessionId,
        input: Vec<Content>,
        options: TurnOptions,
        key: Option<RequestKey>,
    ) -> Result<Submitted, EngineError> {
        let new = Submission::new(session, input, options);
        self.submit_as(Submission { key, ..new }).await
    }

    /// Like [`Engine::submit`], as the caller wants it.
    pub async fn submit_as(&self, new: Submission) -> Result<Submitted, EngineError> {
        let Submission { session, input, options, key, found_by, follows } = new;
        let claim = key.map(|key| key.claim(self.shared.clock.now(), session, &input));
        let id = TurnId::from_uuid(self.shared.clock.fresh_uuid());
        let log = TurnLog::new(id, session);
        let watch = Watch::live(Arc::clone(&log), Arc::clone(&self.shared.store), 0);
        let mut turn = Turn { id, session, input, options };
        loop {
            let (reply, answer) = oneshot::channel();
            let (log, claim) = (Arc::clone(&log), claim.clone());
            let command =
                Command::Submit(Box::new(Submit { turn, log, claim, found_by, follows, reply }));
            let actor = match self.shared.existing_actor(session) {
                Some(actor) => actor,
                None => self.shared.actor(session).await?,
            };
            match actor.send(command).await {
                Ok(()) => {
                    let accepted = answer.await.map_err(|_| EngineError::ShuttingDown)??;
                    return match accepted {
                        Accepted::Known(known) => self.known(known).await,
                        Accepted::Running => {
                            Ok(Submitted { turn: id, running: true, repeats: false, watch })
                        }
                        Accepted::Queued => {
                            Ok(Submitted { turn: id, running: false, repeats: false, watch })
                        }
                    };
                }
                // The actor had just decided to end: start another one.
                Err(Command::Submit(returned)) => turn = returned.turn,
                Err(_) => return Err(EngineError::ShuttingDown),
            }
        }
    }

    /// A turn that an earlier request began.
    async fn known(&self, turn: TurnId) -> Result<Submitted, EngineError> {
        let watch = self.watch(turn, 0).await?;
        let running = matches!(self.turn(turn).await?.state, TurnState::Running);
        Ok(Submitted { turn, running, repeats: true, watch })
    }

    pub async fn turn(&self, id: TurnId) -> Result<TurnRecord, EngineError> {
        let store = &self.shared.store;
        let mut record = store.turn(id).await?;
        if record.is_none()
            && let Some(log) = self.shared.log(id)
        {
            // It is shown already, and written in a moment.
            log.recorded().await;
            record = store.turn(id).await?;
        }
        record.ok_or(EngineError::NotFound("turn"))
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
            return Ok(Watch::live(log, Arc::clone(&self.shared.store), after));
        }
        self.turn(turn).await?;
        Ok(Watch::stored(Arc::clone(&self.shared.store), turn, after))
    }

    /// Asks a turn to stop: by protocol, or with `kill` by ending its process. A turn that still
    /// waits in the queue ends at once.
    pub async fn interrupt(&self, turn: TurnId, kill: bool) -> Result<(), EngineError> {
        self.tell_running(turn, Command::Interrupt { turn, kill }).await.map(drop)
    }

    /// Passes a command to the actor that runs a turn, and returns that turn's session.
    async fn tell_running(&self, turn: TurnId, command: Command) -> Result<SessionId, EngineError> {
        let log = self.shared.log(turn).filter(|log| !log.is_finished());
        let log = match log {
            Some(log) => log,
            None => self.parked_log(turn).await?,
        };
        let actor = self.shared.existing_actor(log.session).ok_or(EngineError::NotRunning)?;
        actor.send(command).await.map_err(|_| EngineError::NotRunning)?;
        Ok(log.session)
    }

    /// A turn that is parked and that nobody waits with is taken up here.
    async fn parked_log(&self, turn: TurnId) -> Result<Arc<TurnLog>, EngineError> {
        let record = self.turn(turn).await?;
        if !matches!(record.state, TurnState::Parked { .. }) {
            return Err(EngineError::NotRunning);
        }
        self.shared.actor(record.session).await?;
        self.shared.log(turn).ok_or(EngineError::NotRunning)
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
        let session = self.tell_running(turn, Command::Steer { turn, input, reply }).await?;
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
        let command = Command::ToolResult { turn, id, ok, content, reply };
        self.tell_running(turn, command).await?;
        answer.await.map_err(|_| EngineError::NotRunning)?
    }

    /// Remembers what a conversation looked like to its caller after an answer; what is returned
    /// resolves when that is committed.
    pub async fn note_history(&self, note: &HistoryNote) -> Result<Committed, EngineError> {
        Ok(self.shared.store.note_history(note).await?)
    }

    /// Where a conversation looked like this, newest first.
    pub async fn with_history(
        &self,
        hash: [u8; 32],
        limit: usize,
    ) -> Result<Vec<HistoryNote>, EngineError> {
        Ok(self.shared.store.with_history(hash, limit).await?)
    }

    /// What the turns of a caller have cost that were begun since, in US dollars.
    pub async fn spent(&self, caller: &str, since: Timestamp) -> Result<f64, EngineError> {
        Ok(self.shared.store.spent(caller, since).await?)
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
        let page = Page { limit: 1, before: next.map(uuid::Uuid::from_u128) };
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
        let actor = self.shared.existing_actor(session).ok_or(EngineError::NotPending)?;
        let (reply, answer) = oneshot::channel();
        let sent = actor.send(Command::Decide { approval, decision, reply }).await;
        sent.map_err(|_| EngineError::NotPending)?;
        answer.await.map_err(|_| EngineError::NotPending)?
    }

    /// Ends every turn as interrupted, closes every agent, and waits for all of it.
    pub async fn shutdown(&self) {
        self.end_turns().await;
        self.close().await;
    }

    /// The first half of a shutdown: every turn ends, and what was recorded can still be read.
    pub async fn end_turns(&self) {
        let limits = &self.shared.limits;
        let grace = limits.interrupt_grace + limits.close_grace * 3;
        if !self.shared.tasks.shutdown(grace).await {
            tracing::warn!("some sessions did not end in time");
        }
    }

    /// The second half.
    pub async fn close(&self) {
        for executor in &self.shared.executors {
            executor.close().await;
        }
        self.shared.store.close().await;
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("limits", &self.limits).finish_non_exhaustive()
    }
}
