//! Executors, which are kinds of agents, and agents, which are their live processes.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::BoxFuture;
use crate::model::{
    ApprovalRequest, Content, Decision, EventKind, Failure, FailureKind, NativeSessionId,
    PastConversation, PastTurn, QuotaReport, SessionId, SessionSpec, ToolId, Turn, TurnId,
    TurnStatus,
};

/// A kind of agent that Angelia can drive.
pub trait Executor: Send + Sync + 'static {
    /// Returns the name used in configuration, URLs and records.
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> ExecutorCapabilities;

    /// Reports whether the agent is installed, its version, and whether it is logged in. May start the agent,
    /// but not a conversation.
    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth>;

    /// Reports the same without starting the agent. Runs the program at most to get its version and login;
    /// facts that only a running agent knows remain unknown.
    fn inspect<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        self.probe(spec)
    }

    /// Opens an agent for a session. `Err` means that the agent could not be started and nothing has run.
    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>>;

    /// Starts as many processes in advance as the specification requests. Returns at once.
    fn warm_up(&self, spec: &SessionSpec);

    /// Copies the agent's own conversation in its current state, and returns the id of the copy.
    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>>;

    /// Lists conversations kept by the agent's own program, most recently used first. Starts nothing. An
    /// executor without such a program has none.
    fn past_conversations<'a>(
        &'a self,
        _spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Vec<PastConversation>, Failure>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Reads one of these conversations, oldest turn first, without changing it.
    fn read_past_conversation<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<Vec<PastTurn>, ConversationError>> {
        Box::pin(std::future::ready(Err(ConversationError::Lost)))
    }

    /// Deletes the agent's own transcript of a conversation.
    fn delete_conversation<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Ends every process that was started in advance.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Why an agent's own conversation could not be continued or copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// The agent no longer has the conversation. The engine can start a new one from its record.
    #[error("the agent no longer has this conversation")]
    Lost,
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Failed(failure) => failure,
            ConversationError::Lost => Self::new(FailureKind::Agent, error.to_string()),
        }
    }
}

/// A request to open an agent.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest<'a> {
    pub session: SessionId,
    pub spec: &'a SessionSpec,
    /// The agent's own session to continue.
    pub native: Option<&'a NativeSessionId>,
    /// Whether only the owner speaks in the session, judging by where it was started.
    pub is_owners: bool,
    /// The recorded conversation, for executors whose agents do not keep their own.
    pub record: &'a dyn ConversationRecord,
}

/// The earlier turns of a session as recorded by the engine.
pub trait ConversationRecord: fmt::Debug + Send + Sync {
    /// Returns the turns that are not part of the specification's history, oldest first. Turns of the
    /// sessions that this one was forked from come before its own.
    fn turns(&self) -> BoxFuture<'_, Result<Vec<RecordedTurn>, Failure>>;
}

/// A turn as it was recorded.
#[derive(Clone, Debug)]
pub struct RecordedTurn {
    pub id: TurnId,
    /// Whether the owner sent the turn.
    pub is_owners: bool,
    pub input: Vec<Content>,
    pub events: Vec<EventKind>,
}

/// A conversation without any recorded turn.
#[derive(Clone, Copy, Debug)]
pub struct EmptyRecord;

impl ConversationRecord for EmptyRecord {
    fn turns(&self) -> BoxFuture<'_, Result<Vec<RecordedTurn>, Failure>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// A live process or connection, bound to one session.
pub trait Agent: Send {
    /// Runs one turn and returns how it ended; the engine, not the agent, writes `Finished`. Cancelling
    /// `io.cancel` requests an interrupt through the protocol. The turn ends as `Interrupted` once the agent
    /// confirms.
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome>;

    /// Returns whether the agent can run another turn; `false` once it has exited or must be replaced.
    fn is_usable(&mut self) -> bool;

    /// Stops the agent and everything it started.
    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()>;
}

/// The engine's side of a running turn, as the agent sees it.
#[derive(Debug)]
pub struct TurnIo {
    pub events: EventSender,
    pub control: mpsc::Receiver<TurnControl>,
    pub cancel: CancellationToken,
}

/// Sends the events of an agent in batches: one send per read of its output.
#[derive(Clone, Debug)]
pub struct EventSender(mpsc::Sender<Vec<AgentEvent>>);

impl EventSender {
    pub fn new(sender: mpsc::Sender<Vec<AgentEvent>>) -> Self {
        Self(sender)
    }

    /// Sends a batch and waits only for the recorder. If the engine has given up the turn, drops the events.
    pub async fn send(&self, batch: Vec<AgentEvent>) {
        if !batch.is_empty() {
            let _given_up = self.0.send(batch).await;
        }
    }
}

/// Something that an agent reports during a turn.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    Event(EventKind),
    ApprovalRequest(ApprovalRequest),
    /// The agent no longer needs a decision on the request with this key.
    ApprovalWithdrawn(Arc<str>),
    Activity(Activity),
    /// What is left of a quota. Not an event of the turn.
    Quota(QuotaReport),
    /// The cost in US dollars of work that the turn has delegated. It is part of other turns' usage, but
    /// counts against this turn's limit.
    HandedOnCost(f64),
}

/// What the agent is doing, where its events do not show it. Each activity has its own timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    WaitingForModel,
    Retrying,
    Compacting,
    /// The answer is complete, but work that it started continues.
    Background,
    /// The agent called one of the caller's tools; the result arrives as [`TurnControl::ToolResult`].
    AwaitingToolResult,
}

/// A message from the engine to a running agent.
#[derive(Clone, Debug)]
pub enum TurnControl {
    /// The answer to an approval request. A verdict that allows is always `Once`, because the engine keeps
    /// session-wide and permanent grants itself, so the agent must ask again.
    Decide { key: Arc<str>, decision: Decision },
    /// No objection to a call that the agent reported (`ApprovalStage::Report`): the agent's own rules
    /// decide.
    Proceed { key: Arc<str> },
    /// Further text for the running turn.
    Steer(Vec<Content>),
    /// The result of a caller's tool.
    ToolResult { id: ToolId, ok: bool, content: Vec<Content> },
}

/// The end of a turn as reported by the agent.
#[derive(Clone, Debug)]
pub struct AgentOutcome {
    pub status: TurnStatus,
    /// The answer as reported by the agent; `None` to use the answer from the events.
    pub text: Option<Arc<str>>,
    pub reason: Arc<str>,
}

/// The reason recorded if a turn failed because the vendor has no such model.
pub const UNKNOWN_MODEL_REASON: &str = "unknown_model";

/// The reason recorded if a turn shortened its conversation ([`TurnTask::Compact`](crate::model::TurnTask)).
pub const COMPACTED_REASON: &str = "compacted";

impl AgentOutcome {
    /// Returns the outcome of a turn for which the vendor has no model of this name.
    pub fn unknown_model(failure: Failure) -> Self {
        Self { reason: UNKNOWN_MODEL_REASON.into(), ..Self::failed(failure) }
    }

    pub fn failed(failure: Failure) -> Self {
        let reason = failure.kind.as_str().into();
        Self { status: TurnStatus::Failed(failure), text: None, reason }
    }

    pub fn interrupted(reason: &str) -> Self {
        Self { status: TurnStatus::Interrupted, text: None, reason: reason.into() }
    }
}

/// What an executor can do. Code that depends on an ability checks the capability, never the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorCapabilities {
    /// Can replace the agent's own system prompt.
    pub replace_prompt: bool,
    pub append_prompt: bool,
    /// Can start with a history that has roles.
    pub carry_history: bool,
    pub caller_tools: bool,
    /// Supports specifying whether to call one of the caller's tools, and which.
    pub tool_choice: bool,
    pub output_schema: bool,
    pub images: bool,
    /// Accepts text during a turn.
    pub steer: bool,
    pub fork: bool,
    pub resume: bool,
    /// Has a mode in which nothing on this machine can be read or changed.
    pub model_mode: bool,
    /// Counts its own requests to the model, and enforces
    /// [`NativeSettings::max_iterations`](crate::model::NativeSettings).
    pub iterations: bool,
    /// Offers delegation itself; other agents get our MCP server for it.
    pub delegates: bool,
    /// Keeps notes from session to session, and can review a session to write them.
    pub memory: bool,
    /// Can shorten its conversation on request ([`TurnTask::Compact`](crate::model::TurnTask)).
    pub compact: bool,
}

impl ExecutorCapabilities {
    pub const ALL: Self = Self {
        replace_prompt: true,
        append_prompt: true,
        carry_history: true,
        caller_tools: true,
        tool_choice: true,
        output_schema: true,
        images: true,
        steer: true,
        fork: true,
        resume: true,
        model_mode: true,
        iterations: true,
        delegates: true,
        memory: true,
        compact: true,
    };
}

/// The result of a probe, as shown by `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorHealth {
    pub installation: Option<InstalledAgent>,
    pub login: LoginState,
    /// The problem, with advice for solving it.
    pub problem: Option<Failure>,
}

impl ExecutorHealth {
    pub const fn is_ready(&self) -> bool {
        self.installation.is_some() && self.problem.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledAgent {
    pub path: PathBuf,
    pub version: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginState {
    /// The payment lane is set if the agent reports it.
    LoggedIn {
        lane: Option<Arc<str>>,
    },
    LoggedOut,
    Unknown,
    /// The executor needs no login.
    NotNeeded,
}
