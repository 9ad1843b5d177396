//! An executor whose agents are controlled step by step from the test. Engine tests use it to fix
//! the exact order in which things happen.
#![expect(clippy::expect_used, clippy::panic, reason = "a test double fails by panicking")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    model::{
        AgentStart, EventKind, Failure, NativeSessionId, SessionSpec, TextChannel, Turn, TurnStatus,
    },
    ports::{
        Agent, AgentEvent, AgentOutcome, BoxFuture, ConversationError, Executor,
        ExecutorCapabilities, ExecutorHealth, InstalledAgent, LoginState, OpenRequest, TurnIo,
    },
};
use tokio::sync::{Mutex, mpsc, oneshot};

/// The executor. The test controls its agents through the [`ExecutorControl`].
#[derive(Debug)]
pub struct ManualExecutor {
    turns: mpsc::Sender<ManualTurn>,
    counts: Arc<AgentCounters>,
}

#[derive(Debug, Default)]
struct AgentCounters {
    opened: AtomicUsize,
    closed: AtomicUsize,
    conversations_lost: AtomicBool,
    close_ms: AtomicU64,
}

/// The test's end of a [`ManualExecutor`], which receives the turns that its agents are asked to
/// run.
#[derive(Debug)]
pub struct ExecutorControl {
    turns: Mutex<mpsc::Receiver<ManualTurn>>,
    counts: Arc<AgentCounters>,
}

/// A turn that an agent was asked to run and that the test now plays.
#[derive(Debug)]
pub struct ManualTurn {
    pub turn: Turn,
    pub io: TurnIo,
    /// The specification with which the agent was opened.
    pub spec: SessionSpec,
    /// The agent's native session, if the agent was opened to resume one.
    pub resumed: Option<NativeSessionId>,
    end: oneshot::Sender<ManualEnding>,
}

#[derive(Debug)]
enum ManualEnding {
    End(AgentOutcome),
    Panic,
    Retire(AgentOutcome),
}

impl ManualExecutor {
    pub fn new() -> (Arc<Self>, ExecutorControl) {
        let (runs, receiver) = mpsc::channel(64);
        let counts = Arc::<AgentCounters>::default();
        let strings = ExecutorControl { turns: Mutex::new(receiver), counts: Arc::clone(&counts) };
        (Arc::new(Self { turns: runs, counts }), strings)
    }
}

impl ExecutorControl {
    /// Waits for the next turn that any agent is asked to run.
    pub async fn next_turn(&self) -> ManualTurn {
        self.turns.lock().await.recv().await.expect("the puppet lives")
    }

    /// Returns a turn that an agent has already been asked to run, without waiting.
    pub fn try_next_turn(&self) -> Option<ManualTurn> {
        self.turns.try_lock().ok()?.try_recv().ok()
    }

    /// Makes the executor forget its conversations, so that none can be resumed or copied.
    pub fn lose_conversations(&self) {
        self.counts.conversations_lost.store(true, Ordering::SeqCst);
    }

    pub fn opened_agents(&self) -> usize {
        self.counts.opened.load(Ordering::SeqCst)
    }

    pub fn closed_agents(&self) -> usize {
        self.counts.closed.load(Ordering::SeqCst)
    }

    /// Makes every agent take this long to close.
    pub fn set_close_duration(&self, duration: Duration) {
        let millis = u64::try_from(duration.as_millis()).expect("a test does not wait for ages");
        self.counts.close_ms.store(millis, Ordering::SeqCst);
    }
}

impl ManualTurn {
    pub async fn emit(&self, emitted: Vec<AgentEvent>) {
        self.io.events.send(emitted).await;
    }

    pub async fn emit_started(&self) {
        let started = AgentStart {
            profile: "default".into(),
            executor: "puppet".into(),
            model: Some("wood".into()),
            native_session_id: Some(NativeSessionId::new("native-1")),
            resumed: self.resumed.is_some(),
            warm: false,
        };
        self.emit(vec![AgentEvent::Event(EventKind::Started(started))]).await;
    }

    /// Emits an answer text as one delta and its complete block.
    pub async fn emit_answer(&self, block: u32, text: &str) {
        let channel = TextChannel::Answer;
        let text: Arc<str> = text.into();
        self.emit(vec![
            AgentEvent::Event(EventKind::Delta { block, channel, text: Arc::clone(&text) }),
            AgentEvent::Event(EventKind::Block { block, channel, text }),
        ])
        .await;
    }

    /// Returns whether the engine has stopped waiting for this turn to end.
    pub fn is_abandoned(&self) -> bool {
        self.end.is_closed()
    }

    pub fn complete(self, text: &str) {
        self.end(AgentOutcome {
            status: TurnStatus::Completed,
            text: Some(text.into()),
            reason: "end_turn".into(),
        });
    }

    pub fn end(self, ended: AgentOutcome) {
        let _given_up = self.end.send(ManualEnding::End(ended));
    }

    /// Ends the turn and makes the agent unusable for further turns.
    pub fn retire(self, ended: AgentOutcome) {
        let _given_up = self.end.send(ManualEnding::Retire(ended));
    }

    /// Makes the agent's `run` panic in the middle of the turn.
    pub fn panic(self) {
        let _given_up = self.end.send(ManualEnding::Panic);
    }
}

impl Executor for ManualExecutor {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn capabilities(&self) -> ExecutorCapabilities {
        ExecutorCapabilities {
            tool_choice: false,
            iterations: false,
            delegates: false,
            memory: false,
            ..ExecutorCapabilities::ALL
        }
    }

    fn probe<'a>(&'a self, _spec: &'a SessionSpec) -> BoxFuture<'a, ExecutorHealth> {
        let installed = Some(InstalledAgent { path: "puppet".into(), version: "1".into() });
        Box::pin(async {
            ExecutorHealth { installation: installed, login: LoginState::NotNeeded, problem: None }
        })
    }

    fn open<'a>(
        &'a self,
        opening: OpenRequest<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Agent>, ConversationError>> {
        if opening.native.is_some() && self.counts.conversations_lost.load(Ordering::SeqCst) {
            return Box::pin(async { Err(ConversationError::Lost) });
        }
        self.counts.opened.fetch_add(1, Ordering::SeqCst);
        let agent = ManualAgent {
            turns: self.turns.clone(),
            counts: Arc::clone(&self.counts),
            spec: opening.spec.clone(),
            resumed: opening.native.cloned(),
            usable: true,
        };
        Box::pin(async { Ok(Box::new(agent) as Box<dyn Agent>) })
    }

    fn warm_up(&self, _spec: &SessionSpec) {}

    fn fork<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<NativeSessionId, ConversationError>> {
        let is_lost = self.counts.conversations_lost.load(Ordering::SeqCst);
        Box::pin(async move {
            if is_lost {
                return Err(ConversationError::Lost);
            }
            Ok(NativeSessionId::new(format!("{native}-fork")))
        })
    }

    fn delete_conversation<'a>(
        &'a self,
        _spec: &'a SessionSpec,
        _native: &'a NativeSessionId,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

struct ManualAgent {
    turns: mpsc::Sender<ManualTurn>,
    counts: Arc<AgentCounters>,
    spec: SessionSpec,
    resumed: Option<NativeSessionId>,
    usable: bool,
}

impl Agent for ManualAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(async move {
            let (end, script) = oneshot::channel();
            let run = ManualTurn {
                turn: turn.clone(),
                io,
                spec: self.spec.clone(),
                resumed: self.resumed.take(),
                end,
            };
            self.turns.send(run).await.expect("the test lives");
            match script.await {
                Ok(ManualEnding::End(ended)) => ended,
                Ok(ManualEnding::Retire(ended)) => {
                    self.usable = false;
                    ended
                }
                Ok(ManualEnding::Panic) => panic!("as the test asked"),
                // The test dropped the turn without ending it, so play an agent that never answers.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn is_usable(&mut self) -> bool {
        self.usable
    }

    fn close(self: Box<Self>, _grace: Duration) -> BoxFuture<'static, ()> {
        self.counts.closed.fetch_add(1, Ordering::SeqCst);
        let duration = Duration::from_millis(self.counts.close_ms.load(Ordering::SeqCst));
        Box::pin(tokio::time::sleep(duration))
    }
}
