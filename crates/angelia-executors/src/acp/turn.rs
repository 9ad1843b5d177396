//! One turn, from `session/prompt` to its answer. The loop reads, writes and takes control messages
//! concurrently; one read of the agent's output becomes one batch of events.
//!
//! ```text
//!   session/prompt ─►  running ─► answer to the prompt ─► Ended
//!                        │  ▲
//!  cancel: withdraw ─────┤  └── decisions, results of files and terminals
//!  approvals, then       │
//!  session/cancel        │
//!  no answer 5 s after that, or end of output ──► Ended, and the agent is retired
//! ```

use std::time::Duration;

use angelia_core::{
    model::{EventKind, Notice, NoticeLevel, Turn, TurnStatus},
    ports::{AgentEvent, AgentOutcome, TurnControl, TurnIo},
};
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};

use super::{
    agent::AcpAgent,
    client::ClientResponse,
    connection::{AcpCallError, PendingRequestKind},
    protocol::outgoing::{self, AcpCall},
};
use crate::turn_timers::{DueAction, TurnTimers, has_elapsed, interrupted_outcome};

/// A cancel that arrives before the agent has started the prompt has no effect, so it is repeated.
const CANCEL_INTERVAL: Duration = Duration::from_secs(1);

/// A tool call that is only announced is shown after this time, even if nothing more is known.
const ANNOUNCE_DELAY: Duration = Duration::from_millis(300);

/// Limits the wait for the agent's refusal of the barrier request.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

/// The event that woke the loop of a turn.
enum LoopEvent {
    Read,
    OutputEnded,
    Wrote,
    Response(ClientResponse),
    Control(TurnControl),
    ControlClosed,
    Cancelled,
    TimerFired,
}

/// The timers of a turn.
struct AcpTurnTimers {
    common: TurnTimers,
    /// When to show tool calls that were only announced.
    announce_at: Option<Instant>,
}

impl AcpTurnTimers {
    fn next(&self) -> Instant {
        let next = self.common.next_deadline();
        self.announce_at.map_or(next, |at| at.min(next))
    }
}

impl AcpAgent {
    pub(super) async fn run_turn(&mut self, turn: &Turn, mut io: TurnIo) -> AgentOutcome {
        if io.cancel.is_cancelled() {
            return interrupted_outcome("interrupted before it began");
        }
        // Late output of the previous turn must not become part of this one.
        if !self.drain_until_idle().await {
            return AgentOutcome::failed(self.exit_failure("before the turn").await);
        }
        let content = self.prompt_content(turn);
        let (blocks, all) =
            outgoing::content_blocks(&content, self.translator.agent().accepts_images);
        let Ok(id) = self.connection.pending.register(PendingRequestKind::Prompt) else {
            return AgentOutcome::failed(self.exit_failure("before the turn").await);
        };
        let prompt = AcpCall::prompt(self.translator.session().as_str(), blocks);
        self.connection.link.input.push(prompt.encode(&id));
        drop(content);
        self.in_turn = true;
        let mut batch = std::mem::take(&mut self.startup_events);
        self.translator.begin_turn(&mut batch);
        if !all {
            let text = "this agent does not accept images; they were left out";
            let notice = Notice::new(NoticeLevel::Warning, "images_left_out", text);
            batch.push(AgentEvent::Event(EventKind::Notice(notice)));
        }
        io.events.send(std::mem::take(&mut batch)).await;

        let ended = self.run_turn_loop(&mut io).await;
        self.connection.pending.cancel(&id);
        self.unsettled = ended.status != TurnStatus::Completed;
        self.flush().await;
        self.in_turn = false;
        self.with_stderr(ended)
    }

    async fn run_turn_loop(&mut self, io: &mut TurnIo) -> AgentOutcome {
        let mut clocks =
            AcpTurnTimers { common: TurnTimers::new(CANCEL_INTERVAL), announce_at: None };
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut batch = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next());
        tokio::pin!(cancelled, clock);
        loop {
            let link = &mut self.connection.link;
            let has_more = link.input.has_pending();
            // Reading comes last, so that a flood of output cannot starve the other branches.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => LoopEvent::Cancelled,
                control = io.control.recv(), if control_open => {
                    control.map_or(LoopEvent::ControlClosed, LoopEvent::Control)
                }
                served = self.service.next_response() => LoopEvent::Response(served),
                () = link.input.write(), if has_more => LoopEvent::Wrote,
                () = &mut clock => LoopEvent::TimerFired,
                more = link.output.read() => if more { LoopEvent::Read } else { LoopEvent::OutputEnded },
            };
            let ended = match step {
                LoopEvent::Read => {
                    let ended = self.translate(&mut batch).await;
                    clocks.announce_at = (self.translator.has_announced_calls()).then(|| {
                        clocks.announce_at.unwrap_or_else(|| Instant::now() + ANNOUNCE_DELAY)
                    });
                    clock.as_mut().reset(clocks.next());
                    ended
                }
                LoopEvent::OutputEnded => Some(self.handle_end_of_output(&mut batch).await),
                LoopEvent::Wrote => None,
                LoopEvent::Response(served) => {
                    self.send_response(&served);
                    None
                }
                LoopEvent::ControlClosed => {
                    control_open = false;
                    None
                }
                LoopEvent::Control(control) => {
                    if self.handle_control(control, &mut batch).await && !asked_to_stop {
                        asked_to_stop = true;
                        self.stop_turn(&mut clocks, &mut batch);
                        clock.as_mut().reset(clocks.next());
                    }
                    None
                }
                LoopEvent::Cancelled => {
                    asked_to_stop = true;
                    self.stop_turn(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    None
                }
                LoopEvent::TimerFired => {
                    let ended = self.handle_timers(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    ended
                }
            };
            io.events.send(std::mem::take(&mut batch)).await;
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    fn stop_turn(&mut self, clocks: &mut AcpTurnTimers, batch: &mut Vec<AgentEvent>) {
        self.cancel(batch);
        clocks.common.start_stop_timers();
    }

    fn handle_timers(
        &mut self,
        clocks: &mut AcpTurnTimers,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        match clocks.common.take_due() {
            Some(DueAction::GiveUp) => {
                self.retired = true;
                // Close the open blocks and tool calls; the outcome that this returns is not used.
                let _not_its_end = self.translator.on_end_of_output(batch);
                return Some(interrupted_outcome(
                    "interrupted; the agent did not react and is ended",
                ));
            }
            Some(DueAction::RepeatStop) => self.cancel(batch),
            None => {}
        }
        if has_elapsed(clocks.announce_at, Instant::now()) {
            clocks.announce_at = None;
            self.translator.show_announced(batch);
        }
        clocks.common.check_exit(&mut self.connection.link);
        None
    }

    /// Handles the output that arrived since the last turn, so that it does not become part of the
    /// next one. `false`: the agent has exited.
    async fn drain_until_idle(&mut self) -> bool {
        let mut nobody = Vec::new();
        loop {
            self.translate(&mut nobody).await;
            nobody.clear();
            match self.connection.link.output.read().now_or_never() {
                Some(true) => {}
                Some(false) => return false,
                None => break,
            }
        }
        if !std::mem::take(&mut self.unsettled) {
            return true;
        }
        // The agent answers in order: output of an interrupted turn comes before this answer.
        let call = AcpCall::barrier(self.translator.session().as_str());
        let Self { connection, translator, .. } = self;
        let late = |method: &str, params: Option<&serde_json::value::RawValue>| {
            translator.on_notification(method, params, &mut nobody);
        };
        let settled = connection.call(&call, SETTLE_LIMIT, late).await;
        !matches!(settled, Err(AcpCallError::Gone))
    }
}
