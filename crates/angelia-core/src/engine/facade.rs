//! The public interface of the engine for frontends.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    engine_state::EngineState,
    idempotency::RequestKey,
    session_command::{SessionCommand, SubmitCommand},
    spend::SpendLimit,
    turn_log::{TurnLog, TurnWatch},
};
use crate::{
    model::{
        ApprovalId, ApprovalRecord, Content, Decision, ExternalName, Failure, Seq, SessionId,
        SessionSource, SessionSpec, ToolId, TurnId, TurnOptions, TurnRecord, TurnState,
    },
    ports::{
        ApprovalFilter, Clock, EditDiffer, Executor, HistoryEntry, NewTurn, Page, PathResolver,
        PendingCommit, SessionFiles, Store, StoreError,
    },
    task::TaskGroup,
};

/// Maximum wait for a session that another process holds.
const HELD_SESSION_TIMEOUT: Duration = Duration::from_secs(5);
const HELD_SESSION_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Runs the turns of all sessions in this process. Cheap to clone; all clones share one engine.
#[derive(Clone)]
pub struct Engine {
    pub(super) shared: Arc<EngineState>,
}

/// Dependencies of an [`Engine`].
pub struct EngineParts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub paths: Arc<dyn PathResolver>,
    pub edits: Arc<dyn EditDiffer>,
    pub session_files: Arc<dyn SessionFiles>,
    pub executors: Vec<Arc<dyn Executor>>,
    pub limits: EngineLimits,
    pub tasks: TaskGroup,
}

#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// How long an idle agent stays alive.
    pub idle_ttl: Duration,
    /// How long an idle agent stays alive after a one-off turn ([`Submission::one_off`]).
    pub one_off_idle_ttl: Duration,
    /// Maximum number of live agents.
    pub max_live_agents: usize,
    /// Maximum number of waiting turns per session.
    pub max_queued_turns: usize,
    /// How long an interrupted agent may take to report that it has stopped.
    pub interrupt_grace: Duration,
    /// How long a closing agent may take before it is killed.
    pub close_grace: Duration,
    /// Maximum output of one turn: text, tool input and tool output, plus a little for every event.
    pub output_bytes: usize,
    /// Whether sessions are reviewed in the background. Off in a process that exits after its turn,
    /// because the exit would interrupt the review.
    pub reviews: bool,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            idle_ttl: Duration::from_mins(10),
            one_off_idle_ttl: Duration::from_mins(1),
            max_live_agents: 64,
            max_queued_turns: 16,
            interrupt_grace: Duration::from_secs(10),
            close_grace: Duration::from_secs(3),
            output_bytes: 64 << 20,
            reviews: true,
        }
    }
}

#[derive(Debug)]
pub struct NewSession {
    pub spec: SessionSpec,
    pub title: Option<Arc<str>>,
    pub name: Option<ExternalName>,
    pub source: Option<SessionSource>,
}

/// A request to run a turn.
#[derive(Clone, Debug)]
pub struct Submission {
    pub session: SessionId,
    pub input: Vec<Content>,
    pub options: TurnOptions,
    /// Deduplicates requests: if the key was used before, no turn starts, and the caller gets the
    /// turn of the first request, replayed from its first event.
    pub key: Option<RequestKey>,
    /// Indexes the new turn under this hash ([`Engine::find_by_history`]).
    pub history_hash: Option<[u8; 32]>,
    /// The caller's spending limit. The turn is refused if the limit is fully spent or reserved.
    /// The limit also applies to work that is charged to the caller later.
    pub spend_limit: Option<SpendLimit>,
    /// The session is not expected to continue, so its agent is released early.
    pub one_off: bool,
}

impl Submission {
    pub const fn new(session: SessionId, input: Vec<Content>, options: TurnOptions) -> Self {
        Self {
            session,
            input,
            options,
            key: None,
            history_hash: None,
            spend_limit: None,
            one_off: false,
        }
    }
}

/// A turn that the engine has accepted.
#[derive(Debug)]
pub struct SubmittedTurn {
    pub turn: TurnId,
    /// `false` if the turn waits for another turn of the session.
    pub running: bool,
    /// Whether an earlier request with the same key submitted this turn.
    pub is_repeat: bool,
    /// Starts at the first event.
    pub watch: TurnWatch,
}

/// Reply of a session actor to a submitted turn.
pub(super) enum SubmitReply {
    Running,
    Queued,
    /// An earlier request with the same key already created this turn.
    AlreadySubmitted(TurnId),
}

/// Result of [`Engine::steer`].
#[derive(Debug)]
pub enum SteerOutcome {
    /// The running agent got the text.
    Passed,
    /// The text became the next turn of the session.
    Queued(SubmittedTurn),
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("{limit} turns are already waiting in this session; try again when one has ended")]
    QueueFull { limit: usize },
    #[error("this key was already used for a different request (turn {0}); use a new key")]
    KeyReused(TurnId),
    #[error("the approval does not offer the rule `{0}`; choose one of those it shows")]
    NotOffered(String),
    #[error("a turn of this session is running; try again when it has ended")]
    TurnRunning,
    #[error("the turn is no longer running in this process")]
    NotRunning,
    #[error("the approval has already been decided, or its turn is over")]
    NotPending,
    #[error("angelia is shutting down; try again when it is back")]
    ShuttingDown,
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Engine {
    pub fn new(parts: EngineParts) -> Self {
        Self { shared: Arc::new(EngineState::new(parts)) }
    }

    pub fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.shared.executors
    }

    /// Submits a turn and returns at once. The returned watch yields the events.
    pub async fn submit(
        &self,
        session: SessionId,
        input: Vec<Content>,
        options: TurnOptions,
    ) -> Result<SubmittedTurn, EngineError> {
        self.submit_with(Submission::new(session, input, options)).await
    }

    /// Submits a turn like [`Engine::submit`], with all options of a [`Submission`].
    pub async fn submit_with(&self, new: Submission) -> Result<SubmittedTurn, EngineError> {
        if self.is_draining() {
            return Err(EngineError::ShuttingDown);
        }
        let Submission { session, input, options, key, history_hash, spend_limit, one_off } = new;
        let created_at = self.shared.clock.now();
        let claim = key.map(|key| key.into_claim(created_at, session, &input));
        let turn = TurnId::from_uuid(self.shared.clock.fresh_uuid());
        let state = TurnState::Queued;
        let record = TurnRecord { id: turn, session, input, options, created_at, state };
        let mut new_turn = NewTurn { record, claim, history_hash };
        let log = TurnLog::new(turn, session);
        let watch = TurnWatch::live(Arc::clone(&log), Arc::clone(&self.shared.store), 0);
        let answer = loop {
            let (reply, answer) = oneshot::channel();
            let log = Arc::clone(&log);
            let command = SubmitCommand { new_turn, spend_limit, one_off, log, reply };
            let actor = match self.shared.existing_actor(session) {
                Some(actor) => actor,
                None => self.shared.get_or_start_actor(session).await?,
            };
            match actor.send(SessionCommand::Submit(Box::new(command))).await {
                Ok(()) => break answer,
                // The actor has just ended: start another one and resubmit.
                Err(SessionCommand::Submit(returned)) => new_turn = returned.new_turn,
                Err(_) => return Err(EngineError::ShuttingDown),
            }
        };
        let running = match answer.await.map_err(|_| EngineError::ShuttingDown)?? {
            SubmitReply::Running => true,
            SubmitReply::Queued => false,
            SubmitReply::AlreadySubmitted(known) => return self.repeated_turn(known).await,
        };
        Ok(SubmittedTurn { turn, running, is_repeat: false, watch })
    }

    /// Submits a turn like [`Engine::submit_with`], but waits a few seconds for a session that
    /// another process holds, because most turns are short. Cancelling `stop` ends the wait.
    pub async fn submit_when_free(
        &self,
        new: Submission,
        stop: &CancellationToken,
    ) -> Result<SubmittedTurn, EngineError> {
        let deadline = Instant::now() + HELD_SESSION_TIMEOUT;
        loop {
            match self.submit_with(new.clone()).await {
                Err(EngineError::Store(StoreError::Held(_)))
                    if Instant::now() < deadline && !stop.is_cancelled() =>
                {
                    stop.run_until_cancelled(sleep(HELD_SESSION_RETRY_DELAY)).await;
                }
                submitted => return submitted,
            }
        }
    }

    /// Returns the turn that an earlier request with the same key created.
    async fn repeated_turn(&self, turn: TurnId) -> Result<SubmittedTurn, EngineError> {
        let watch = self.watch(turn, 0).await?;
        let running = matches!(self.turn(turn).await?.state, TurnState::Running);
        Ok(SubmittedTurn { turn, running, is_repeat: true, watch })
    }

    /// Returns a turn, including its end, even if the end is not written yet.
    pub async fn turn(&self, id: TurnId) -> Result<TurnRecord, EngineError> {
        let kept = self.shared.kept_ends();
        let mut turn = self.shared.store.turn(id).await?.ok_or(EngineError::NotFound("turn"))?;
        turn.state = kept.get(&id).cloned().unwrap_or(turn.state);
        Ok(turn)
    }

    pub async fn turns(
        &self,
        session: Option<SessionId>,
        page: Page,
    ) -> Result<Vec<TurnRecord>, EngineError> {
        let kept = self.shared.kept_ends();
        let mut turns = self.shared.store.turns(session, page).await?;
        for turn in &mut turns {
            if let Some(end) = kept.get(&turn.id) {
                turn.state = end.clone();
            }
        }
        Ok(turns)
    }

    /// Watches the events of a turn whose number is above `after`, live or from the store.
    pub async fn watch(&self, turn: TurnId, after: Seq) -> Result<TurnWatch, EngineError> {
        if let Some(log) = self.shared.find_log(turn) {
            return Ok(TurnWatch::live(log, Arc::clone(&self.shared.store), after));
        }
        self.turn(turn).await?;
        Ok(TurnWatch::stored(Arc::clone(&self.shared.store), turn, after))
    }

    /// Asks a turn to stop: through the agent's protocol, or with `kill` by killing the agent's
    /// process. A queued turn ends at once.
    pub async fn interrupt(&self, turn: TurnId, kill: bool) -> Result<(), EngineError> {
        self.send_to_turn(turn, SessionCommand::Interrupt { turn, kill }).await.map(drop)
    }

    /// Sends a command to the actor that runs a turn, and returns the session of that turn.
    async fn send_to_turn(
        &self,
        turn: TurnId,
        command: SessionCommand,
    ) -> Result<SessionId, EngineError> {
        let log = self.shared.find_log(turn).filter(|log| !log.is_finished());
        let log = match log {
            Some(log) => log,
            None => self.open_parked_log(turn).await?,
        };
        let actor = self.shared.existing_actor(log.session).ok_or(EngineError::NotRunning)?;
        actor.send(command).await.map_err(|_| EngineError::NotRunning)?;
        Ok(log.session)
    }

    /// Starts the actor for a parked or handed-over turn that no process is waiting for, and
    /// returns the turn's log.
    async fn open_parked_log(&self, turn: TurnId) -> Result<Arc<TurnLog>, EngineError> {
        let record = self.turn(turn).await?;
        if !matches!(record.state, TurnState::Parked { .. } | TurnState::HandedOver) {
            return Err(EngineError::NotRunning);
        }
        self.shared.get_or_start_actor(record.session).await?;
        self.shared.find_log(turn).ok_or(EngineError::NotRunning)
    }

    /// Adds text to a running turn. An agent that supports steering gets the text after its next
    /// tool call; otherwise the text becomes the next turn.
    pub async fn steer(
        &self,
        turn: TurnId,
        input: Vec<Content>,
        options: TurnOptions,
    ) -> Result<SteerOutcome, EngineError> {
        let (reply, answer) = oneshot::channel();
        let session = self.send_to_turn(turn, SessionCommand::Steer { turn, input, reply }).await?;
        match answer.await.map_err(|_| EngineError::NotRunning)?? {
            None => Ok(SteerOutcome::Passed),
            Some(input) => {
                let submitted = self.submit(session, input, options).await?;
                Ok(SteerOutcome::Queued(submitted))
            }
        }
    }

    /// Passes the result of one of the caller's tools to the running turn.
    pub async fn send_tool_result(
        &self,
        turn: TurnId,
        id: ToolId,
        ok: bool,
        content: Vec<Content>,
    ) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        let command = SessionCommand::ToolResult { turn, id, ok, content, reply };
        self.send_to_turn(turn, command).await?;
        answer.await.map_err(|_| EngineError::NotRunning)?
    }

    /// Indexes a conversation under the hash of its history after an answer. The returned future
    /// resolves when the entry is committed.
    pub async fn index_history(&self, entry: &HistoryEntry) -> Result<PendingCommit, EngineError> {
        Ok(self.shared.store.index_history(entry).await?)
    }

    /// Returns the conversations whose history had this hash, newest first.
    pub async fn find_by_history(
        &self,
        hash: [u8; 32],
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, EngineError> {
        Ok(self.shared.store.find_by_history(hash, limit).await?)
    }

    /// Returns the cost in US dollars of the caller's turns that started at or after `since`.
    pub async fn cost_since(&self, caller: &str, since: Timestamp) -> Result<f64, EngineError> {
        Ok(self.shared.store.cost_since(caller, since).await?)
    }

    /// Lists approvals, newest first.
    pub async fn approvals(
        &self,
        which: ApprovalFilter,
        page: Page,
    ) -> Result<Vec<ApprovalRecord>, EngineError> {
        Ok(self.shared.store.approvals(which, page).await?)
    }

    pub async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord, EngineError> {
        let page = Page::starting_at(id.as_uuid());
        let mut found = self.approvals(ApprovalFilter::All, page).await?.into_iter();
        found.find(|record| record.approval.id == id).ok_or(EngineError::NotFound("approval"))
    }

    /// Decides an approval; the first decision wins.
    pub async fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> Result<(), EngineError> {
        let session = self.shared.pending_approvals().get(&approval).copied();
        let session = session.ok_or(EngineError::NotPending)?;
        let actor = self.shared.existing_actor(session).ok_or(EngineError::NotPending)?;
        let (reply, answer) = oneshot::channel();
        let sent = actor.send(SessionCommand::Decide { approval, decision, reply }).await;
        sent.map_err(|_| EngineError::NotPending)?;
        answer.await.map_err(|_| EngineError::NotPending)?
    }

    /// Returns the number of turn ends that could not be recorded at all. Call it after
    /// [`Engine::end_turns`].
    pub fn lost_ends(&self) -> usize {
        self.shared.lost_ends()
    }

    /// Checks that turns can be recorded.
    pub async fn check_writable(&self) -> Result<(), EngineError> {
        Ok(self.shared.check_writable().await?)
    }

    /// Interrupts every turn, closes every agent and the store, and waits until all of that is
    /// done.
    pub async fn shutdown(&self) {
        self.end_turns().await;
        self.close().await;
    }

    /// First half of a shutdown: ends every turn. The store can still be read afterwards.
    pub async fn end_turns(&self) {
        let limits = &self.shared.limits;
        let grace = limits.interrupt_grace + limits.close_grace * 3;
        if !self.shared.tasks.shutdown(grace).await {
            tracing::warn!("some sessions did not end in time");
        }
    }

    /// Second half of a shutdown: closes the executors and the store.
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

impl std::fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineParts").field("limits", &self.limits).finish_non_exhaustive()
    }
}
