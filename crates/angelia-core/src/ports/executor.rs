//! A kind of agent, and a live one.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::BoxFuture;
use crate::model::{
    ApprovalRequest, Content, Decision, EventKind, Failure, NativeSessionId, SessionId,
    SessionSpec, Status, ToolId, Turn,
};

/// A kind of agent we can drive.
pub trait Executor: Send + Sync + 'static {
    /// The word used in configuration, URLs and records.
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Installed, which version, logged in? Cheap enough for `doctor`; starts no conversation.
    fn probe<'a>(&'a self, spec: &'a SessionSpec) -> BoxFuture<'a, Health>;

    /// A live agent for a session. `Err` means that it could not be started; nothing has run.
    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Box<dyn Agent>, Failure>>;

    /// Gets processes of this shape ready, as many as the specification wants. Returns at once.
    fn warm_up(&self, spec: &SessionSpec);

    /// Copies the agent's own conversation as it stands now under a new name of its own.
    fn fork<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, Failure>>;

    /// Removes the agent's own transcript of a conversation.
    fn forget<'a>(
        &'a self,
        spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Ends every process that is kept waiting.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What an agent is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    pub session: SessionId,
    pub spec: &'a SessionSpec,
    /// The agent's own conversation to continue.
    pub native: Option<&'a NativeSessionId>,
}

/// A live process or connection, bound to one session.
pub trait Agent: Send {
    /// Runs one turn to its end and returns how it ended; the engine, not the agent, writes
    /// `Finished`. Cancelling `io.cancel` asks for a protocol interrupt; the turn then ends as
    /// `Interrupted` as soon as the agent says so.
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, Ended>;

    /// Can it take another turn? `false` once it has exited or must be retired.
    fn is_usable(&mut self) -> bool;

    /// Stops it with everything it started.
    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()>;
}

/// The two ends an agent talks to while it runs a turn.
#[derive(Debug)]
pub struct TurnIo {
    pub events: EventSender,
    pub control: mpsc::Receiver<TurnControl>,
    pub cancel: CancellationToken,
}

/// Where an agent puts what happened, in batches: one read of its output, one send.
#[derive(Clone, Debug)]
pub struct EventSender(mpsc::Sender<Vec<Emitted>>);

impl EventSender {
    pub fn new(sender: mpsc::Sender<Vec<Emitted>>) -> Self {
        Self(sender)
    }

    /// Waits for the recorder, and for nobody else. A turn that is no longer recorded has been
    /// given up by the engine, so what it says is dropped.
    pub async fn send(&self, batch: Vec<Emitted>) {
        if !batch.is_empty() {
            let _given_up = self.0.send(batch).await;
        }
    }
}

/// What an agent has to say during a turn.
#[derive(Clone, Debug)]
pub enum Emitted {
    Event(EventKind),
    Ask(ApprovalRequest),
    /// The agent no longer wants an answer to the question of this key.
    Withdraw(Arc<str>),
    Activity(Activity),
}

/// What an agent is busy with, as far as its events do not say it; every one has its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    WaitingForModel,
    Retrying,
    Compacting,
    /// The answer is there, but work it started goes on.
    Background,
    /// One of the caller's tools was called; its result comes by [`TurnControl::ToolResult`].
    AwaitingToolResult,
}

/// What the engine tells a running agent.
#[derive(Clone, Debug)]
pub enum TurnControl {
    Decide {
        key: Arc<str>,
        decision: Decision,
    },
    /// Text for the running turn.
    Steer(Vec<Content>),
    /// A caller's tool answers.
    ToolResult {
        id: ToolId,
        ok: bool,
        content: Vec<Content>,
    },
}

/// How a turn ended, as the agent sees it.
#[derive(Clone, Debug)]
pub struct Ended {
    pub status: Status,
    /// The answer in the agent's own words; `None`: what the events hold.
    pub text: Option<Arc<str>>,
    pub reason: Arc<str>,
}

impl Ended {
    pub fn failed(failure: Failure) -> Self {
        let reason = failure.kind.as_str().into();
        Self { status: Status::Failed(failure), text: None, reason }
    }
}

/// What a kind of agent can do. Whoever must choose asks here and never for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// A system prompt of ours instead of its own.
    pub replace_prompt: bool,
    pub append_prompt: bool,
    /// A foreign history with true roles.
    pub carry_history: bool,
    pub caller_tools: bool,
    pub output_schema: bool,
    pub images: bool,
    /// Text into a running turn.
    pub steer: bool,
    pub fork: bool,
    pub resume: bool,
    /// A mode in which nothing on this machine can be read or changed.
    pub model_mode: bool,
}

/// What `doctor` wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub installed: Option<Installed>,
    pub login: Login,
    /// What is wrong and what to do, where something is.
    pub problem: Option<Failure>,
}

impl Health {
    pub const fn is_ready(&self) -> bool {
        self.installed.is_some() && self.problem.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub path: PathBuf,
    pub version: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// With the lane that pays, where the agent tells it.
    In {
        lane: Option<Arc<str>>,
    },
    Out,
    Unknown,
    /// This kind needs none.
    NotNeeded,
}
