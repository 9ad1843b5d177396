//! An open agent and the turns that a check runs on it.
//!
//! A turn runs together with a viewer: a closure that reads the events as they arrive and reacts.
//! When the closure returns, the rest of the turn is read to its end and the stream is checked.

use std::{path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{
        ApprovalRequest, ApprovalStage, Content, EventKind, Failure, NativeSessionId, SessionSpec,
        Turn, TurnOrigin, Verdict,
    },
    ports::{AgentEvent, AgentOutcome, TurnControl, TurnIo},
};
use angelia_executors::selftest::{TurnTrace, stream};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::{ExecutorFixture, LongTool};
use crate::{
    direct_session::{DEADLINE, DirectSession, TurnHandle, wait_until},
    turn_output::TurnOutput,
};

/// An agent counts as silent if it sends no event for this long.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(300);

/// An open agent whose turns run with a viewer and are checked.
pub(super) struct AgentSession(DirectSession);

/// The settings of a turn besides its input.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnSettings {
    pub(super) origin: TurnOrigin,
    /// Number of batches that fit into the channel between the agent and its viewer.
    pub(super) capacity: usize,
    /// The viewer's delay before it takes the next batch.
    pub(super) pace: Option<Duration>,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self { origin: TurnOrigin::Owner, capacity: 64, pace: None }
    }
}

/// Opens an agent for a new conversation.
pub(super) async fn open(fixture: &impl ExecutorFixture, spec: &SessionSpec) -> AgentSession {
    try_open(fixture, spec, None).await.unwrap()
}

pub(super) async fn resume(
    fixture: &impl ExecutorFixture,
    spec: &SessionSpec,
    native: &NativeSessionId,
) -> AgentSession {
    try_open(fixture, spec, Some(native)).await.unwrap()
}

pub(super) async fn try_open(
    fixture: &impl ExecutorFixture,
    spec: &SessionSpec,
    native: Option<&NativeSessionId>,
) -> Result<AgentSession, Failure> {
    DirectSession::open(&**fixture.executor(), spec, native).await.map(AgentSession)
}

impl AgentSession {
    pub(super) async fn prompt(&mut self, prompt: impl Into<Arc<str>>) -> TurnOutput {
        self.prompt_watched(prompt, async |_| {}).await
    }

    pub(super) async fn prompt_watched(
        &mut self,
        prompt: impl Into<Arc<str>>,
        viewer: impl AsyncFnOnce(&mut TurnViewer),
    ) -> TurnOutput {
        let input = vec![Content::text(prompt)];
        self.turn(input, TurnSettings::default(), viewer).await
    }

    /// Runs a turn and answers every approval request with this verdict.
    pub(super) async fn prompt_with_verdict(
        &mut self,
        prompt: impl Into<Arc<str>>,
        verdict: Verdict,
    ) -> TurnOutput {
        let viewer = async |view: &mut TurnViewer| view.decide_all(verdict).await;
        self.prompt_watched(prompt, viewer).await
    }

    pub(super) async fn turn(
        &mut self,
        input: Vec<Content>,
        manner: TurnSettings,
        viewer: impl AsyncFnOnce(&mut TurnViewer),
    ) -> TurnOutput {
        let (turn, io, mut view) = self.prepare(input, manner);
        let running = async {
            let ended = timeout(DEADLINE, self.0.agent.run(&turn, io)).await;
            (ended, Instant::now())
        };
        let viewing = async {
            viewer(&mut view).await;
            view.drain().await;
        };
        let ((ended, at), ()) = tokio::join!(running, viewing);
        let Ok(ended) = ended else {
            panic!("the turn does not end; so far {:#?}", view.received);
        };
        view.into_output(ended, at)
    }

    /// Starts a turn and drops it when the viewer returns, like the engine during a shutdown.
    pub(super) async fn prompt_abandoned(
        &mut self,
        prompt: impl Into<Arc<str>>,
        viewer: impl AsyncFnOnce(&mut TurnViewer),
    ) {
        let (turn, io, mut view) =
            self.prepare(vec![Content::text(prompt)], TurnSettings::default());
        tokio::select! {
            ended = self.0.agent.run(&turn, io) => panic!("it should go on: {ended:#?}"),
            seen = timeout(DEADLINE, viewer(&mut view)) => seen.unwrap(),
        }
    }

    /// Runs a turn that is cancelled before it starts.
    pub(super) async fn prompt_cancelled(&mut self, prompt: impl Into<Arc<str>>) -> TurnOutput {
        let (turn, io, mut view) =
            self.prepare(vec![Content::text(prompt)], TurnSettings::default());
        view.cancel();
        let ended = timeout(DEADLINE, self.0.agent.run(&turn, io)).await.unwrap();
        let at = Instant::now();
        view.drain().await;
        view.into_output(ended, at)
    }

    /// Runs a turn whose viewer closes its event channel at the first delta and then cancels.
    pub(super) async fn prompt_unread(&mut self, prompt: impl Into<Arc<str>>) -> AgentOutcome {
        let (turn, io, mut view) =
            self.prepare(vec![Content::text(prompt)], TurnSettings::default());
        let viewing = async {
            view.until_delta().await;
            view.events.close();
            view.cancel();
        };
        let both = async { tokio::join!(self.0.agent.run(&turn, io), viewing) };
        timeout(DEADLINE, both).await.unwrap().0
    }

    fn prepare(&self, input: Vec<Content>, manner: TurnSettings) -> (Turn, TurnIo, TurnViewer) {
        let (turn, io, events, hands) = self.0.prepare(input, manner.origin, manner.capacity);
        let view = TurnViewer {
            events,
            hands,
            pace: manner.pace,
            received: Vec::new(),
            read: 0,
            cancelled_at: None,
        };
        (turn, io, view)
    }

    pub(super) fn is_usable(&mut self) -> bool {
        self.0.agent.is_usable()
    }

    pub(super) async fn close(self) {
        self.0.close().await;
    }
}

/// Reads the events of a running turn, and lets a check decide approvals and cancel it.
pub(super) struct TurnViewer {
    events: mpsc::Receiver<Vec<AgentEvent>>,
    hands: TurnHandle,
    pace: Option<Duration>,
    received: Vec<AgentEvent>,
    /// Number of received events that [`Self::next`] has returned.
    read: usize,
    cancelled_at: Option<Instant>,
}

impl TurnViewer {
    /// Returns the next event, or `None` when the turn is over. Lets calls proceed that the agent
    /// only reports.
    pub(super) async fn next(&mut self) -> Option<AgentEvent> {
        loop {
            while self.read == self.received.len() {
                if let Some(pace) = self.pace {
                    sleep(pace).await;
                }
                self.received.extend(self.events.recv().await?);
            }
            self.read += 1;
            match self.received.get(self.read - 1)? {
                AgentEvent::ApprovalRequest(request) if request.stage == ApprovalStage::Report => {
                    let key = Arc::clone(&request.key);
                    self.send_control(TurnControl::Proceed { key });
                }
                other => return Some(other.clone()),
            }
        }
    }

    /// Reads events until `pick` returns something. Panics if the turn ends before that.
    pub(super) async fn until<T>(&mut self, pick: impl Fn(AgentEvent) -> Option<T>) -> T {
        loop {
            let Some(one) = self.next().await else {
                panic!("it never came; heard was {:#?}", self.received);
            };
            if let Some(found) = pick(one) {
                return found;
            }
        }
    }

    pub(super) async fn until_started(&mut self) {
        self.until(|one| matches!(one, AgentEvent::Event(EventKind::Started(_))).then_some(()))
            .await;
    }

    pub(super) async fn until_delta(&mut self) {
        self.until(|one| matches!(one, AgentEvent::Event(EventKind::Delta { .. })).then_some(()))
            .await;
    }

    pub(super) async fn until_approval_request(&mut self) -> ApprovalRequest {
        self.until(|one| match one {
            AgentEvent::ApprovalRequest(request) => Some(request),
            _ => None,
        })
        .await
    }

    /// Waits until the turn has started and no more events arrive.
    pub(super) async fn until_silent(&mut self) {
        self.until_started().await;
        while let Ok(one) = timeout(SILENCE_TIMEOUT, self.next()).await {
            assert!(one.is_some(), "it should go on: {:#?}", self.received);
        }
    }

    /// Waits until the tool runs. Allows it if the agent asks.
    pub(super) async fn until_tool_runs(&mut self, tool: &LongTool) {
        let ask_or_call = |one| match one {
            AgentEvent::ApprovalRequest(request) => Some(Some(request)),
            AgentEvent::Event(EventKind::ToolCall(_)) if tool.running.is_none() => Some(None),
            _ => None,
        };
        if let Some(request) = self.until(ask_or_call).await {
            self.decide(&request, Verdict::Once);
        }
        if let Some(path) = tool.running.as_deref() {
            wait_until("the tool does not run", || Path::exists(path)).await;
        }
    }

    pub(super) async fn decide_all(&mut self, verdict: Verdict) {
        while let Some(one) = self.next().await {
            if let AgentEvent::ApprovalRequest(request) = one {
                self.decide(&request, verdict);
            }
        }
    }

    pub(super) fn decide(&self, request: &ApprovalRequest, verdict: Verdict) {
        self.hands.decide(request, verdict);
    }

    pub(super) fn send_control(&self, control: TurnControl) {
        self.hands.send_control(control);
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled_at.get_or_insert_with(Instant::now);
        self.hands.cancel.cancel();
    }

    /// Reads to the end of the stream. The agent has dropped its sender, so no event can follow.
    async fn drain(&mut self) {
        while self.next().await.is_some() {}
    }

    fn into_output(self, ended: AgentOutcome, at: Instant) -> TurnOutput {
        let trace = TurnTrace {
            agent_events: self.received,
            outcome: ended,
            cancel_latency: self.cancelled_at.map(|since| at - since),
        };
        let checked = stream::check(&trace).and_then(|()| stream::check_reported_usage(&trace));
        if let Err(defect) = checked {
            panic!("{defect}: {trace:#?}");
        }
        TurnOutput(trace)
    }
}
