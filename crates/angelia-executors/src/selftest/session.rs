//! An open agent and the turns that a check runs on it. Every wait has a limit.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        ApprovalRequest, ApprovalStage, Content, Decision, EventKind, Failure, FailureKind,
        NativeSessionId, SessionId, SessionSpec, ToolCall, Turn, TurnId, TurnOptions, TurnOrigin,
        Verdict,
    },
    ports::{
        Agent, AgentEvent, AgentOutcome, BoxFuture, ConversationError, EmptyRecord, EventSender,
        OpenRequest, TurnControl, TurnIo,
    },
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{CheckedAgent, Defect, TurnTrace, stream};

/// How long an agent may take to start, with room for a busy machine.
const START_LIMIT: Duration = Duration::from_secs(90);

/// The longest time that an agent may be silent during a turn.
const STEP_LIMIT: Duration = Duration::from_secs(50);

/// How long an agent may take to exit when it is closed.
const CLOSE_GRACE: Duration = Duration::from_secs(4);

/// Who decides, in the decisions of a check.
const DECIDED_BY: &str = "selftest";

pub(super) struct CheckedSession {
    id: SessionId,
    agent: Box<dyn Agent>,
}

impl CheckedSession {
    /// Opens an agent for a new conversation.
    pub(super) async fn open(agent: &dyn CheckedAgent, spec: &SessionSpec) -> Result<Self, Defect> {
        let opened = Self::start_agent(agent, spec, None).await?;
        opened.ok_or_else(|| Defect::new("it has lost a conversation that had not begun"))
    }

    /// Opens an agent that continues a conversation. Returns `None` if the agent no longer has it.
    pub(super) async fn resume(
        agent: &dyn CheckedAgent,
        native: &NativeSessionId,
    ) -> Result<Option<Self>, Defect> {
        Self::start_agent(agent, &agent.spec(), Some(native)).await
    }

    async fn start_agent(
        agent: &dyn CheckedAgent,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> Result<Option<Self>, Defect> {
        let id = SessionId::from_uuid(Uuid::now_v7());
        let opening =
            OpenRequest { session: id, spec, native, is_owners: true, record: &EmptyRecord };
        match timeout(START_LIMIT, agent.executor().open(opening)).await {
            Ok(Ok(agent)) => Ok(Some(Self { id, agent })),
            Ok(Err(ConversationError::Lost)) => Ok(None),
            Ok(Err(ConversationError::Failed(failure))) => Err(Defect::of_start(failure)),
            Err(_) => {
                let message = format!("it did not start within {START_LIMIT:?}");
                Err(Defect::of_start(Failure::new(FailureKind::Timeout, message)))
            }
        }
    }

    /// Runs a turn to its end and denies every request from the agent.
    pub(super) async fn prompt(&mut self, text: impl Into<Arc<str>>) -> Result<TurnTrace, Defect> {
        self.start(text).finish(Verdict::Deny).await
    }

    pub(super) fn start(&mut self, text: impl Into<Arc<str>>) -> RunningTurn<'_> {
        let turn = Turn {
            id: TurnId::from_uuid(Uuid::now_v7()),
            session: self.id,
            input: vec![Content::text(text)],
            options: TurnOptions { can_ask: true, ..TurnOptions::new(TurnOrigin::Owner) },
        };
        let (sender, events) = mpsc::channel(64);
        let (control, receiver) = mpsc::channel(64);
        let cancel = CancellationToken::new();
        let io =
            TurnIo { events: EventSender::new(sender), control: receiver, cancel: cancel.clone() };
        let agent = &mut *self.agent;
        let run = Box::pin(async move { agent.run(&turn, io).await });
        RunningTurn {
            run: Some(run),
            outcome: None,
            events,
            control,
            cancel,
            received: Vec::new(),
            read: 0,
            cancelled_at: None,
            ended_at: Instant::now(),
        }
    }

    pub(super) fn is_usable(&mut self) -> bool {
        self.agent.is_usable()
    }

    pub(super) async fn close(self) -> Result<(), Defect> {
        match timeout(STEP_LIMIT, self.agent.close(CLOSE_GRACE)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Defect::new("it could not be stopped")),
        }
    }
}

/// A turn that makes progress only while one of these methods is awaited.
pub(super) struct RunningTurn<'a> {
    run: Option<BoxFuture<'a, AgentOutcome>>,
    outcome: Option<AgentOutcome>,
    events: mpsc::Receiver<Vec<AgentEvent>>,
    control: mpsc::Sender<TurnControl>,
    cancel: CancellationToken,
    received: Vec<AgentEvent>,
    /// The number of received events that [`Self::next`] has returned.
    read: usize,
    cancelled_at: Option<Instant>,
    ended_at: Instant,
}

impl RunningTurn<'_> {
    /// Returns the next event, or `None` when the turn is over. Lets calls that the agent only
    /// reports proceed.
    async fn next(&mut self) -> Result<Option<AgentEvent>, Defect> {
        loop {
            while self.read == self.received.len() {
                let Ok(more) = timeout(STEP_LIMIT, self.receive()).await else {
                    return Err(Defect::new(format!("it said nothing for {STEP_LIMIT:?}")));
                };
                if !more {
                    return Ok(None);
                }
            }
            self.read += 1;
            match self.received.get(self.read - 1) {
                Some(AgentEvent::ApprovalRequest(request))
                    if request.stage == ApprovalStage::Report =>
                {
                    let key = Arc::clone(&request.key);
                    self.send_control(TurnControl::Proceed { key })?;
                }
                other => return Ok(other.cloned()),
            }
        }
    }

    /// Runs the turn until events arrive. Returns `false` at its end.
    async fn receive(&mut self) -> bool {
        loop {
            let Some(run) = &mut self.run else {
                // The agent has dropped its sender, so the remaining events are in the channel.
                let Some(batch) = self.events.recv().await else { return false };
                self.received.extend(batch);
                return true;
            };
            tokio::select! {
                biased;
                Some(batch) = self.events.recv() => {
                    self.received.extend(batch);
                    return true;
                }
                outcome = run => {
                    self.ended_at = Instant::now();
                    self.outcome = Some(outcome);
                    self.run = None;
                }
            }
        }
    }

    /// Reads events until `pick` returns something. `wanted` names it in the defect.
    async fn until<T>(
        &mut self,
        wanted: &str,
        pick: impl Fn(&AgentEvent) -> Option<T>,
    ) -> Result<T, Defect> {
        while let Some(event) = self.next().await? {
            if let Some(found) = pick(&event) {
                return Ok(found);
            }
        }
        let end = self.outcome.as_ref().map_or_else(String::new, |end| {
            let failure = end.status.failure().map(|failure| format!(": {}", failure.message));
            format!(" (`{}`{})", end.reason, failure.unwrap_or_default())
        });
        Err(Defect::new(format!("the turn ended{end} without {wanted}")))
    }

    pub(super) async fn until_delta(&mut self) -> Result<(), Defect> {
        self.until("a piece of the answer", |event| {
            matches!(event, AgentEvent::Event(EventKind::Delta { .. })).then_some(())
        })
        .await
    }

    pub(super) async fn until_tool_call(&mut self) -> Result<ToolCall, Defect> {
        self.until("a call to the tool", |event| match event {
            AgentEvent::Event(EventKind::ToolCall(call)) => Some(call.clone()),
            _ => None,
        })
        .await
    }

    pub(super) async fn until_approval_request(&mut self) -> Result<ApprovalRequest, Defect> {
        self.until("a request for approval", |event| match event {
            AgentEvent::ApprovalRequest(request) => Some(request.clone()),
            _ => None,
        })
        .await
    }

    pub(super) fn decide(&self, request: &ApprovalRequest, verdict: Verdict) -> Result<(), Defect> {
        let decision = Decision::new(verdict, DECIDED_BY);
        self.send_control(TurnControl::Decide { key: Arc::clone(&request.key), decision })
    }

    pub(super) fn send_control(&self, control: TurnControl) -> Result<(), Defect> {
        let sent = self.control.try_send(control);
        sent.map_err(|_| Defect::new("the turn ended before it could be answered"))
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled_at.get_or_insert_with(Instant::now);
        self.cancel.cancel();
    }

    /// Runs the turn to its end with this verdict on every further request, and checks the
    /// invariants of its events.
    pub(super) async fn finish(mut self, verdict: Verdict) -> Result<TurnTrace, Defect> {
        while let Some(event) = self.next().await? {
            if let AgentEvent::ApprovalRequest(request) = event {
                self.decide(&request, verdict)?;
            }
        }
        let Some(outcome) = self.outcome else {
            return Err(Defect::new("the turn has no end"));
        };
        let trace = TurnTrace {
            agent_events: self.received,
            outcome,
            cancel_latency: self.cancelled_at.map(|since| self.ended_at - since),
        };
        stream::check(&trace)?;
        Ok(trace)
    }
}
