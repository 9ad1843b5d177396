//! Opens an agent of an executor directly and runs turns on it, without the engine: for the tests
//! of one particular executor.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::{
    model::{
        AgentStart, ApprovalRequest, Content, Decision, EventKind, Failure, NativeSessionId,
        Notice, SessionId, SessionSpec, TextChannel, ToolCall, ToolResult, Turn, TurnId,
        TurnOptions, TurnOrigin, TurnStatus, Usage, Verdict,
    },
    ports::{
        Agent, AgentEvent, AgentOutcome, ConversationError, EventSender, Executor, OpenRequest,
        TurnControl, TurnIo,
    },
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Upper limit for any single step of a test, with room for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(50);

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
}

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
        let opening = OpenRequest { session: id, spec, native };
        let agent = timeout(DEADLINE, executor.open(opening)).await.unwrap()?;
        Ok(Self { id, agent })
    }

    /// Returns why the conversation `native` could not be resumed.
    pub async fn open_error(
        executor: &dyn Executor,
        spec: &SessionSpec,
        native: &NativeSessionId,
    ) -> ConversationError {
        let session = SessionId::from_uuid(Uuid::now_v7());
        let opening = OpenRequest { session, spec, native: Some(native) };
        match timeout(DEADLINE, executor.open(opening)).await.unwrap() {
            Ok(_) => panic!("the conversation {native} was resumed"),
            Err(error) => error,
        }
    }

    pub async fn prompt(&mut self, text: &str) -> TurnOutput {
        self.turn(TurnOrigin::Owner, vec![Content::text(text)], Box::new(|_, _| {})).await
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

    pub async fn turn(
        &mut self,
        origin: TurnOrigin,
        input: Vec<Content>,
        mut watch: EventWatcher,
    ) -> TurnOutput {
        let turn = Turn {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session: self.id,
            input,
            options: TurnOptions { can_ask: true, ..TurnOptions::new(origin) },
        };
        let (sender, mut events) = mpsc::channel::<Vec<AgentEvent>>(64);
        let (control, receiver) = mpsc::channel(64);
        let cancel = CancellationToken::new();
        let io =
            TurnIo { events: EventSender::new(sender), control: receiver, cancel: cancel.clone() };
        let hands = TurnHandle { control, cancel };
        let emitted = Mutex::new(Vec::new());
        let listen = async {
            while let Some(batch) = events.recv().await {
                for one in batch {
                    watch(&one, &hands);
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
        TurnOutput { agent_events: emitted.into_inner().unwrap(), outcome: ended }
    }

    pub async fn close(self) {
        self.agent.close(Duration::from_secs(4)).await;
    }
}

/// Everything an agent emitted during a turn, and how the turn ended.
#[derive(Debug)]
pub struct TurnOutput {
    pub agent_events: Vec<AgentEvent>,
    pub outcome: AgentOutcome,
}

impl TurnOutput {
    pub fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.agent_events.iter().filter_map(|one| match one {
            AgentEvent::Event(event) => Some(event),
            _ => None,
        })
    }

    /// Returns the answer; panics unless the turn completed.
    pub fn answer(&self) -> &str {
        assert_eq!(self.outcome.status, TurnStatus::Completed, "{self:#?}");
        self.outcome.text.as_deref().unwrap()
    }

    pub fn failure(&self) -> &Failure {
        match self.outcome.status.failure() {
            Some(failure) => failure,
            None => panic!("it did not fail: {self:#?}"),
        }
    }

    pub fn deltas(&self) -> String {
        self.events()
            .filter_map(|event| match event {
                EventKind::Delta { channel: TextChannel::Answer, text, .. } => Some(&**text),
                _ => None,
            })
            .collect()
    }

    pub fn started(&self) -> &AgentStart {
        self.events()
            .find_map(|event| match event {
                EventKind::Started(started) => Some(started),
                _ => None,
            })
            .unwrap()
    }

    pub fn native_session_id(&self) -> NativeSessionId {
        self.started().native_session_id.clone().unwrap()
    }

    pub fn usage(&self) -> &Usage {
        self.events()
            .filter_map(|event| match event {
                EventKind::Usage(usage) => Some(usage),
                _ => None,
            })
            .last()
            .unwrap()
    }

    pub fn tool_calls(&self) -> Vec<&ToolCall> {
        self.events()
            .filter_map(|event| match event {
                EventKind::ToolCall(call) => Some(call),
                _ => None,
            })
            .collect()
    }

    pub fn tool_results(&self) -> Vec<&ToolResult> {
        self.events()
            .filter_map(|event| match event {
                EventKind::ToolResult(result) => Some(result),
                _ => None,
            })
            .collect()
    }

    pub fn notices(&self) -> Vec<&Notice> {
        self.events()
            .filter_map(|event| match event {
                EventKind::Notice(notice) => Some(notice),
                _ => None,
            })
            .collect()
    }

    pub fn approval_requests(&self) -> Vec<&ApprovalRequest> {
        self.agent_events
            .iter()
            .filter_map(|one| match one {
                AgentEvent::ApprovalRequest(request) => Some(request),
                _ => None,
            })
            .collect()
    }
}
