//! Executors (kinds of agents), and agents (their live processes).

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
    /// The name in configuration, URLs and records.
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> ExecutorCapabilities;

    /// Reports whether the agent is installed, its version, and whether it is logged in. May start
    /// the agent, but no conversation.
    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth>;

    /// Reports the same without starting the agent. It asks the program at most for its version and
    /// its login; facts that only a running agent knows stay unknown.
    fn inspect<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        self.probe(spec)
    }

    /// Opens an agent for a session. `Err` means that it could not be started and nothing has run.
    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>>;

    /// Starts processes for this specification in advance, as many as it asks for. Returns at once.
    fn warm_up(&self, spec: &SessionSpec);

    /// Copies the agent's own conversation in its current state, and returns the id of the copy.
    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>>;

    /// Lists conversations that the agent's own program keeps, the one used last first. Starts
    /// nothing. An executor without such a program has none.
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

/// The reason why an agent's own conversation could not be continued or copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// The agent no longer has the conversation. The engine has a record of it and can start
    /// another one from there.
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
    /// Only the owner speaks in the session, as far as it tells where it was begun.
    pub is_owners: bool,
    /// The recorded conversation, for an executor whose agents keep none of their own.
    pub record: &'a dyn ConversationRecord,
}

/// The earlier turns of a session, as the engine recorded them.
pub trait ConversationRecord: fmt::Debug + Send + Sync {
    /// Returns the turns that are not part of the specification's history, oldest first; those of the
    /// sessions that this one was forked from come before its own.
    fn turns(&self) -> BoxFuture<'_, Result<Vec<RecordedTurn>, Failure>>;
}

/// A turn as it was recorded.
#[derive(Clone, Debug)]
pub struct RecordedTurn {
    pub id: TurnId,
    /// The owner has sent it.
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
    /// Runs one turn and returns how it ended; the engine, not the agent, writes `Finished`.
    /// Cancelling `io.cancel` asks for a protocol interrupt; the turn then ends as `Interrupted`
    /// when the agent confirms it.
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome>;

    /// Whether the agent can run another turn; `false` once it has exited or must be replaced.
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

/// Sends the events of an agent in batches: one read of its output, one send.
#[derive(Clone, Debug)]
pub struct EventSender(mpsc::Sender<Vec<AgentEvent>>);

impl EventSender {
    pub fn new(sender: mpsc::Sender<Vec<AgentEvent>>) -> Self {
        Self(sender)
    }

    /// Waits only for the recorder. If the engine has given up the turn, the events are dropped.
    pub async fn send(&self, batch: Vec<AgentEvent>) {
        if !batch.is_empty() {
            let _given_up = self.0.send(batch).await;
        }
    }
}

/// A report of an agent during a turn.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    Event(EventKind),
    ApprovalRequest(ApprovalRequest),
    /// The agent no longer needs the decision on the request with this key.
    ApprovalWithdrawn(Arc<str>),
    Activity(Activity),
    /// The rest of a quota; not an event of the turn.
    Quota(QuotaReport),
    /// The cost in US dollars of work that the turn has handed on. It is the usage of other turns, but counts
    /// against this one's limit.
    HandedOnCost(f64),
}

/// The agent's current activity, as far as its events do not show it. Each activity has its own
/// timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    WaitingForModel,
    Retrying,
    Compacting,
    /// The answer is complete, but work that it started goes on.
    Background,
    /// The agent called a caller's tool; the result comes as [`TurnControl::ToolResult`].
    AwaitingToolResult,
}

/// A message of the engine to a running agent.
#[derive(Clone, Debug)]
pub enum TurnControl {
    /// The answer to an approval request. A verdict that allows is always `Once`: the engine keeps
    /// the grants for a session and for good, so the agent must ask again.
    Decide { key: Arc<str>, decision: Decision },
    /// No objection to a call that the agent reported (`ApprovalStage::Report`): its own rules decide.
    Proceed { key: Arc<str> },
    /// Further text for the running turn.
    Steer(Vec<Content>),
    /// The result of a caller's tool.
    ToolResult { id: ToolId, ok: bool, content: Vec<Content> },
}

/// The end of a turn, as the agent reports it.
#[derive(Clone, Debug)]
pub struct AgentOutcome {
    pub status: TurnStatus,
    /// The answer as the agent reports it; `None`: use the answer from the events.
    pub text: Option<Arc<str>>,
    pub reason: Arc<str>,
}

/// The reason of a turn that failed because the vendor has no such model.
pub const UNKNOWN_MODEL_REASON: &str = "unknown_model";

/// The reason of a turn that has shortened its conversation ([`TurnTask::Compact`](crate::model::TurnTask)).
pub const COMPACTED_REASON: &str = "compacted";

impl AgentOutcome {
    /// The outcome of a turn for which the vendor has no model of this name.
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

/// The abilities of an executor. Code that must choose asks for a capability, never for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorCapabilities {
    /// Can replace its own system prompt.
    pub replace_prompt: bool,
    pub append_prompt: bool,
    /// Can start with a history that has roles.
    pub carry_history: bool,
    pub caller_tools: bool,
    /// Can be told whether to call one of the caller's tools, and which.
    pub tool_choice: bool,
    pub output_schema: bool,
    pub images: bool,
    /// Can take text during a turn.
    pub steer: bool,
    pub fork: bool,
    pub resume: bool,
    /// Has a mode in which nothing on this machine can be read or changed.
    pub model_mode: bool,
    /// Counts its own requests to the model, and keeps the limit of
    /// [`NativeSettings::max_iterations`](crate::model::NativeSettings).
    pub iterations: bool,
    /// Offers to hand work on by itself; other agents get our MCP server for it.
    pub delegates: bool,
    /// Keeps notes from session to session, and can review a session to fill them.
    pub memory: bool,
    /// Can be asked to shorten its conversation ([`TurnTask::Compact`](crate::model::TurnTask)).
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

/// The result of a probe, as `doctor` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorHealth {
    pub installation: Option<InstalledAgent>,
    pub login: LoginState,
    /// The problem, with advice on how to solve it.
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
    /// With the lane that pays, if the agent reports it.
    LoggedIn {
        lane: Option<Arc<str>>,
    },
    LoggedOut,
    Unknown,
    /// The executor needs no login.
    NotNeeded,
}
