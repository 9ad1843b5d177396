//! Opens an executor's agent directly and runs turns on it without the engine, for tests of one
//! particular executor.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::{
    model::{
        ApprovalRequest, ApprovalStage, Content, Decision, Failure, NativeSessionId,
        PermissionLevel, SessionId, SessionSpec, Turn, TurnId, TurnOptions, TurnOrigin, TurnTask,
        Verdict,
    },
    ports::{
        Agent, AgentEvent, ConversationError, EmptyRecord, EventSender, Executor, OpenRequest,
        TurnControl, TurnIo,
    },
};
use angelia_executors::selftest::TurnTrace;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use crate::turn_output::TurnOutput;

/// Upper limit for any single step of a test, with room for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(50);

/// How long an agent may take to exit on its own when it is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(4);

/// Polls until a condition outside the test's control holds; panics after [`DEADLINE`].
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// An open agent with the session id it was opened for.
pub struct DirectSession {
    id: SessionId,
    pub agent: Box<dyn Agent>,
    /// Who sends the next turns; `None` for the owner.
    pub caller: Option<Arc<str>>,
    watch_report: ReportWatcher,
    /// Whether the session is unattended, so that requests without a decision are allowed.
    is_unattended: bool,
}

type ReportWatcher = Box<dyn FnMut(&ApprovalRequest, &TurnHandle) + Send>;

/// A turn, the agent's end of it, and the viewer's receiver and handle.
pub(crate) type PreparedTurn = (Turn, TurnIo, mpsc::Receiver<Vec<AgentEvent>>, TurnHandle);

type EventWatcher = Box<dyn FnMut(&AgentEvent, &TurnHandle) + Send>;

/// Lets the watcher of a running turn decide approvals, send other controls, and cancel the turn.
#[derive(Clone, Debug)]
pub struct TurnHandle {
    pub control: mpsc::Sender<TurnControl>,
    pub cancel: CancellationToken,
}

impl TurnHandle {
    pub fn decide(&self, request: &ApprovalRequest, verdict: Verdict) {
        let decision = Decision::new(verdict, "test");
        let key = Arc::clone(&request.key);
        self.send_control(TurnControl::Decide { key, decision });
    }

    /// Lets a reported call proceed.
    pub fn proceed(&self, report: &ApprovalRequest) {
        self.send_control(TurnControl::Proceed { key: Arc::clone(&report.key) });
    }

    pub fn send_control(&self, control: TurnControl) {
        self.control.try_send(control).unwrap();
    }
}

impl fmt::Debug for DirectSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DirectSession {
    pub async fn open(
        executor: &dyn Executor,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> Result<Self, Failure> {
        let id = SessionId::from_uuid(Uuid::now_v7());
        let opening =
            OpenRequest { session: id, spec, native, is_owners: true, record: &EmptyRecord };
        let agent = timeout(DEADLINE, executor.open(opening)).await.unwrap()?;
        Ok(Self {
            id,
            agent,
            caller: None,
            watch_report: Box::new(|report, hands| hands.proceed(report)),
            is_unattended: spec.permissions.level == PermissionLevel::Unattended,
        })
    }

    /// Passes reported calls to `watch`, which must answer them. Without it every reported call
    /// proceeds.
    pub fn watch_reports(
        &mut self,
        watch: impl FnMut(&ApprovalRequest, &TurnHandle) + Send + 'static,
    ) {
        self.watch_report = Box::new(watch);
    }

    /// Returns why the conversation `native` could not be resumed.
    pub async fn open_error(
        executor: &dyn Executor,
        spec: &SessionSpec,
        native: &NativeSessionId,
    ) -> ConversationError {
        let session = SessionId::from_uuid(Uuid::now_v7());
        let (native, record) = (Some(native), &EmptyRecord);
        let opening = OpenRequest { session, spec, native, is_owners: true, record };
        match timeout(DEADLINE, executor.open(opening)).await.unwrap() {
            Ok(_) => panic!("the conversation {native:?} was resumed"),
            Err(error) => error,
        }
    }

    pub async fn prompt(&mut self, text: &str) -> TurnOutput {
        self.turn(TurnOrigin::Owner, vec![Content::text(text)], Box::new(|_, _| {})).await
    }

    /// Makes the agent shorten its conversation.
    pub async fn compact(&mut self) -> TurnOutput {
        let (mut turn, io, events, hands) = self.prepare(Vec::new(), TurnOrigin::Owner, 64);
        turn.options.task = TurnTask::Compact;
        self.run_turn((turn, io, events, hands), Box::new(|_, _| {})).await
    }

    pub async fn prompt_remotely(&mut self, text: &str) -> TurnOutput {
        self.turn(TurnOrigin::Remote, vec![Content::text(text)], Box::new(|_, _| {})).await
    }

    pub async fn prompt_watched(
        &mut self,
        text: &str,
        watch: impl FnMut(&AgentEvent, &TurnHandle) + Send + 'static,
    ) -> TurnOutput {
        self.turn(TurnOrigin::Owner, vec![Content::text(text)], Box::new(watch)).await
    }

    /// Runs a turn and interrupts it as soon as the condition holds, even before the first event.
    pub async fn prompt_interrupted_when(
        &mut self,
        text: &str,
        condition: impl FnMut() -> bool,
    ) -> TurnOutput {
        let prepared = self.prepare(vec![Content::text(text)], TurnOrigin::Owner, 64);
        let cancel = prepared.3.cancel.clone();
        let interrupting = async {
            wait_until("the turn is where it is interrupted", condition).await;
            cancel.cancel();
        };
        tokio::join!(self.run_turn(prepared, Box::new(|_, _| {})), interrupting).0
    }

    pub async fn turn(
        &mut self,
        origin: TurnOrigin,
        input: Vec<Content>,
        watch: EventWatcher,
    ) -> TurnOutput {
        let prepared = self.prepare(input, origin, 64);
        self.run_turn(prepared, watch).await
    }

    async fn run_turn(
        &mut self,
        (turn, io, mut events, hands): PreparedTurn,
        mut watch: EventWatcher,
    ) -> TurnOutput {
        let emitted = Mutex::new(Vec::new());
        let listen = async {
            while let Some(batch) = events.recv().await {
                for one in batch {
                    match &one {
                        AgentEvent::ApprovalRequest(request) if is_report(request) => {
                            (self.watch_report)(request, &hands);
                        }
                        AgentEvent::ApprovalRequest(request) => {
                            watch(&one, &hands);
                            if self.is_unattended {
                                hands.decide(request, Verdict::Once);
                            }
                        }
                        _ => watch(&one, &hands),
                    }
                    emitted.lock().unwrap().push(one);
                }
            }
        };
        // `run` owns the sender in `io`, so `listen` ends when the agent is done with the turn.
        let both = async { tokio::join!(self.agent.run(&turn, io), listen) };
        let Ok((ended, ())) = timeout(DEADLINE, both).await else {
            let emitted = emitted.lock().unwrap();
            panic!("the turn of {:?} does not end; so far {emitted:#?}", turn.input);
        };
        let agent_events = emitted.into_inner().unwrap();
        TurnOutput(TurnTrace { agent_events, outcome: ended, cancel_latency: None })
    }

    /// Returns a new turn with its two ends: the agent's, and the viewer's receiver and handle.
    /// `capacity` batches of events fit between them.
    pub(crate) fn prepare(
        &self,
        input: Vec<Content>,
        origin: TurnOrigin,
        capacity: usize,
    ) -> PreparedTurn {
        let turn = Turn {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session: self.id,
            input,
            options: TurnOptions {
                can_ask: true,
                caller: self.caller.clone(),
                ..TurnOptions::new(origin)
            },
        };
        let (sender, events) = mpsc::channel(capacity);
        let (control, receiver) = mpsc::channel(64);
        let cancel = CancellationToken::new();
        let io =
            TurnIo { events: EventSender::new(sender), control: receiver, cancel: cancel.clone() };
        (turn, io, events, TurnHandle { control, cancel })
    }

    pub async fn close(self) {
        let closed = timeout(DEADLINE, self.agent.close(CLOSE_GRACE)).await;
        assert!(closed.is_ok(), "it does not close");
    }
}

fn is_report(request: &ApprovalRequest) -> bool {
    request.stage == ApprovalStage::Report
}
