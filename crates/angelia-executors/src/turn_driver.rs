//! The event loop of a turn, shared by all agents. A [`TurnProtocol`] encodes messages and
//! translates the agent's output. [`DrivenAgent`] decides when: it waits for the agent, the
//! engine's controls, cancellation and the timers at the same time, and sends one batch of events
//! per input.
//!
//! ```text
//!   drain ─► begin ─► running ─► the protocol reports the end ─► last events ─► Ended
//!                       │  ▲
//!        cancel: stop ──┤  └── decisions, tool results, steering messages
//!                       │
//!        no end 5 s after the stop, or end of output ─► Ended, and the agent is retired
//! ```

use std::time::Duration;

use angelia_core::{
    model::{
        Decision, EventKind, Failure, FailureKind, Notice, NoticeLevel, Turn, TurnStatus, Verdict,
    },
    ports::{Agent, AgentEvent, AgentOutcome, BoxFuture, TurnControl, TurnIo},
};
use futures_util::FutureExt as _;
use tokio::{task::yield_now, time::timeout};

use crate::turn_timers::{DueAction, STOP_TIMEOUT, StopTimers};

/// How long an agent may take to end its tools before it is closed.
const WIND_DOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// One agent and its protocol: encodes messages for the agent, and translates its output.
pub(crate) trait TurnProtocol: Send + 'static {
    /// Something that has arrived: output from the agent, or a response that the protocol awaits.
    type Input: Send;

    /// The interval at which a stop is repeated. A stop that arrives before the agent has started
    /// on the prompt has no effect.
    const STOP_INTERVAL: Duration;

    /// Reports whether the agent can run another turn.
    fn is_open(&mut self) -> bool;

    /// Reports whether the agent is running a turn that is not ours. That turn must end first,
    /// because the agent would fold our next prompt into it.
    fn runs_foreign_turn(&self) -> bool {
        false
    }

    /// Sends the prompt. Returns `Err` if the turn could not begin.
    fn begin(
        &mut self,
        turn: &Turn,
        batch: &mut Vec<AgentEvent>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits for the next input. Returns `None` once the output has ended. Must be cancel-safe.
    fn next_input(&mut self) -> impl Future<Output = Option<Self::Input>> + Send;

    /// Translates an input into events. Returns the outcome if the turn has ended.
    fn handle_input(
        &mut self,
        input: Self::Input,
        batch: &mut Vec<AgentEvent>,
    ) -> impl Future<Output = Option<AgentOutcome>> + Send;

    /// Passes on a control message from the engine. Returns whether the turn must be stopped.
    fn handle_control(
        &mut self,
        control: TurnControl,
        batch: &mut Vec<AgentEvent>,
    ) -> impl Future<Output = bool> + Send;

    /// Asks the agent to stop the turn. Returns the outcome if the turn has already ended.
    fn stop(
        &mut self,
        batch: &mut Vec<AgentEvent>,
    ) -> impl Future<Output = Option<AgentOutcome>> + Send;

    /// Gives up on an agent that did not stop in time.
    fn give_up(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Closes open blocks and tool calls, because no more output will follow. Returns the outcome
    /// of the running turn, if there is one.
    fn end_of_output(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome>;

    /// Describes why the agent is gone. `when` names the point in the turn.
    fn exit_failure(&mut self, when: &str) -> impl Future<Output = Failure> + Send;

    /// Adds the final events of a turn that has ended.
    fn add_last_events(&mut self, _batch: &mut Vec<AgentEvent>) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Cleans up after a turn whose events have all been sent, and completes its outcome.
    fn finish(&mut self, outcome: AgentOutcome) -> impl Future<Output = AgentOutcome> + Send;

    /// Denies an approval request whose turn is over, because no client can decide it any more.
    fn deny_orphan(&mut self, key: &str, refusal: &Decision) -> impl Future<Output = ()> + Send;

    fn close(self, grace: Duration) -> impl Future<Output = ()> + Send;
}

/// An agent that runs its turns through a protocol.
pub(crate) struct DrivenAgent<P> {
    protocol: P,
    /// Events to send at the start of the first turn.
    startup_events: Vec<AgentEvent>,
    /// Set if the agent must not be used again.
    retired: bool,
    /// Set while a turn is running. It stays set if the future that ran the turn was dropped.
    in_turn: bool,
}

impl<P: TurnProtocol> Agent for DrivenAgent<P> {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(self.run_turn(turn, io))
    }

    fn is_usable(&mut self) -> bool {
        !self.retired && !self.in_turn && self.protocol.is_open()
    }

    fn close(mut self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if self.in_turn && self.protocol.is_open() {
                // An agent that does not stop in time is terminated by `close`.
                let _too_slow = timeout(WIND_DOWN_TIMEOUT.min(grace), self.stop_and_wait()).await;
            }
            self.protocol.close(grace).await;
        })
    }
}

impl<P: TurnProtocol> DrivenAgent<P> {
    pub(crate) fn new(protocol: P, startup_events: Vec<AgentEvent>) -> Self {
        Self { protocol, startup_events, retired: false, in_turn: false }
    }

    async fn run_turn(&mut self, turn: &Turn, mut io: TurnIo) -> AgentOutcome {
        if io.cancel.is_cancelled() {
            return AgentOutcome::interrupted("interrupted before it began");
        }
        if self.retired || !self.drain_until_idle().await {
            self.retired = true;
            return AgentOutcome::failed(self.protocol.exit_failure("before the turn").await);
        }
        self.in_turn = true;
        let mut batch = Vec::new();
        if let Err(failure) = self.protocol.begin(turn, &mut batch).await {
            self.in_turn = false;
            return AgentOutcome::failed(failure);
        }
        batch.splice(..0, self.startup_events.drain(..));
        io.events.send(std::mem::take(&mut batch)).await;
        let outcome = self.run_until_end(&mut io, &mut batch).await;
        self.protocol.add_last_events(&mut batch).await;
        io.events.send(batch).await;
        let outcome = self.protocol.finish(outcome).await;
        self.in_turn = false;
        outcome
    }

    async fn run_until_end(
        &mut self,
        io: &mut TurnIo,
        batch: &mut Vec<AgentEvent>,
    ) -> AgentOutcome {
        let mut timers = StopTimers::new(P::STOP_INTERVAL);
        let mut control_open = true;
        let mut has_spoken = false;
        let cancelled = io.cancel.clone().cancelled_owned();
        tokio::pin!(cancelled);
        loop {
            let mut must_stop = false;
            // The agent's input comes last, so that a flood of output cannot starve the others.
            let end = tokio::select! {
                biased;
                () = &mut cancelled, if !timers.is_running() => {
                    must_stop = true;
                    None
                }
                control = io.control.recv(), if control_open => {
                    match control {
                        Some(control) => {
                            must_stop = self.protocol.handle_control(control, batch).await;
                        }
                        None => control_open = false,
                    }
                    None
                }
                due = timers.due() => match due {
                    DueAction::RepeatStop => self.protocol.stop(batch).await,
                    DueAction::GiveUp => Some(self.give_up(batch).await),
                },
                input = self.protocol.next_input() => match input {
                    Some(input) => self.protocol.handle_input(input, batch).await,
                    None => Some(self.end_of_output(batch).await),
                },
            };
            let end = if must_stop && !timers.is_running() {
                timers.start();
                self.protocol.stop(batch).await
            } else {
                end
            };
            if let Some(outcome) = end {
                return outcome;
            }
            let first_words = !has_spoken && batch.iter().any(is_delta);
            io.events.send(std::mem::take(batch)).await;
            if first_words {
                has_spoken = true;
                // Whoever receives the first words may need this thread: let that task run before
                // translating more.
                yield_now().await;
            }
        }
    }

    async fn give_up(&mut self, batch: &mut Vec<AgentEvent>) -> AgentOutcome {
        self.retired = true;
        self.protocol.give_up().await;
        // The turn ends as interrupted, whatever the protocol reports.
        let _unused = self.protocol.end_of_output(batch);
        AgentOutcome::interrupted("interrupted; the agent did not respond and was terminated")
    }

    async fn end_of_output(&mut self, batch: &mut Vec<AgentEvent>) -> AgentOutcome {
        self.retired = true;
        let outcome = self.protocol.end_of_output(batch);
        let outcome =
            outcome.unwrap_or_else(|| AgentOutcome::failed(Failure::new(FailureKind::Agent, "")));
        match outcome.status {
            // The translator only knows that the output ended; the agent's exit explains more.
            TurnStatus::Failed(failure) if failure.kind == FailureKind::Agent => {
                let failure = self.protocol.exit_failure("in the middle of the turn").await;
                AgentOutcome { status: TurnStatus::Failed(failure), ..outcome }
            }
            _ => outcome,
        }
    }

    /// Discards output that arrived since the last turn, and stops a turn that is not ours. Returns
    /// `false` if the agent is gone or does not become idle in time.
    async fn drain_until_idle(&mut self) -> bool {
        while let Some(input) = self.protocol.next_input().now_or_never() {
            let Some(input) = input else { return false };
            self.discard(input).await;
        }
        if !self.protocol.runs_foreign_turn() {
            return true;
        }
        timeout(STOP_TIMEOUT, self.stop_and_wait()).await.unwrap_or(false)
    }

    /// Stops the running turn and discards its output. Returns `false` if the output has ended.
    async fn stop_and_wait(&mut self) -> bool {
        let _ended = self.protocol.stop(&mut Vec::new()).await;
        loop {
            let Some(input) = self.protocol.next_input().await else { return false };
            let ended = self.discard(input).await;
            if ended || !(self.in_turn || self.protocol.runs_foreign_turn()) {
                return true;
            }
        }
    }

    /// Handles an input that belongs to no turn. Returns whether the input ended one.
    async fn discard(&mut self, input: P::Input) -> bool {
        let mut discarded = Vec::new();
        let ended = self.protocol.handle_input(input, &mut discarded).await.is_some();
        deny_orphans(&mut self.protocol, &discarded).await;
        ended
    }
}

pub(crate) fn is_delta(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Event(EventKind::Delta { .. }))
}

/// Denies the approval requests among events that belong to no turn.
pub(crate) async fn deny_orphans<P: TurnProtocol>(protocol: &mut P, discarded: &[AgentEvent]) {
    for event in discarded {
        if let AgentEvent::ApprovalRequest(request) = event {
            let refusal = Decision::new(Verdict::Deny, "nobody")
                .with_note("the turn this belongs to is over");
            protocol.deny_orphan(&request.key, &refusal).await;
        }
    }
}

pub(crate) fn notice_event(level: NoticeLevel, code: &str, text: String) -> AgentEvent {
    AgentEvent::Event(EventKind::Notice(Notice::new(level, code, text)))
}

/// Returns the notice that a message could not be added to the running turn.
pub(crate) fn not_steered_notice() -> AgentEvent {
    let text = "the agent could not accept the message added to this turn; send it again";
    notice_event(NoticeLevel::Warning, "not_steered", text.to_owned())
}
