//! The event loop of one turn: sends a message with a fresh uuid and runs until its result. The
//! loop reads, writes and takes controls concurrently. One read of the program's output becomes one
//! batch of events, except that the first delta of a turn is sent at once.
//!
//! ```text
//!              message ─►  running ─► result ─► Ended
//!                            │  ▲
//!        cancel: interrupt ──┤  └── decisions, tool results, steering messages
//!                            │
//!        answered, tasks still run: background ── cancel ─► tasks stopped, Ended
//!        no end 5 s after the interrupt, or end of output ─► Ended, and the agent is retired
//! ```

use std::time::Duration;

use angelia_core::{
    model::{EventKind, FailureKind, Turn, TurnStatus},
    ports::{AgentEvent, AgentOutcome, TurnControl, TurnIo},
};
use futures_util::FutureExt as _;
use tokio::{
    task::yield_now,
    time::{sleep_until, timeout},
};

use super::{
    agent::StreamAgent,
    protocol::outgoing::{self, ControlCommand},
};
use crate::{
    process_link::ProcessLink,
    turn_timers::{DueAction, STOP_TIMEOUT, TurnTimers, interrupted_outcome},
};

/// How often to repeat an interrupt: one that arrives before the program has started on the message
/// has no effect.
const INTERRUPT_INTERVAL: Duration = Duration::from_secs(1);

/// One iteration of the event loop.
enum LoopEvent {
    Read,
    OutputEnded,
    Wrote,
    Control(TurnControl),
    ControlClosed,
    Cancelled,
    TimerFired,
}

impl StreamAgent {
    pub(super) async fn run_turn(&mut self, turn: &Turn, mut io: TurnIo) -> AgentOutcome {
        if io.cancel.is_cancelled() {
            return interrupted_outcome("interrupted before it began");
        }
        if !self.drain_until_idle().await {
            return self.fail_between_turns().await;
        }
        let uuid = self.settings.clock.fresh_uuid().to_string();
        self.translator.begin_turn(&uuid);
        self.request_cost_baseline();
        let message = outgoing::user_message(&uuid, &self.message_content(turn));
        self.link.input.push(message);
        self.in_turn = true;
        io.events.send(std::mem::take(&mut self.startup_events)).await;

        let mut clocks = TurnTimers::new(INTERRUPT_INTERVAL);
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut has_spoken = false;
        let mut batch = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next_deadline());
        tokio::pin!(cancelled, clock);
        loop {
            let ProcessLink { input, output, .. } = &mut self.link;
            let has_more = input.has_pending();
            // Reading comes last, so that a flood of output cannot starve the other branches.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => LoopEvent::Cancelled,
                control = io.control.recv(), if control_open => {
                    control.map_or(LoopEvent::ControlClosed, LoopEvent::Control)
                }
                () = input.write(), if has_more => LoopEvent::Wrote,
                () = &mut clock => LoopEvent::TimerFired,
                more = output.read() => if more { LoopEvent::Read } else { LoopEvent::OutputEnded },
            };
            let ended = match step {
                LoopEvent::Read => {
                    let mut ended = None;
                    if !has_spoken {
                        ended = self.translate_until(&mut batch, ends_with_delta);
                        has_spoken = ends_with_delta(&batch);
                        if has_spoken {
                            // Send the first delta before translating the rest, and yield: on a
                            // single processor the receiver should run now.
                            io.events.send(std::mem::take(&mut batch)).await;
                            yield_now().await;
                            std::thread::yield_now();
                        }
                    }
                    ended = ended.or_else(|| self.translate(&mut batch));
                    self.send_pending_steers();
                    io.events.send(std::mem::take(&mut batch)).await;
                    ended
                }
                LoopEvent::OutputEnded => {
                    let ended = self.finish_at_eof(&mut batch).await;
                    io.events.send(std::mem::take(&mut batch)).await;
                    Some(ended)
                }
                LoopEvent::Wrote => None,
                LoopEvent::ControlClosed => {
                    control_open = false;
                    None
                }
                LoopEvent::Control(control) => {
                    self.handle_control(control, turn.options.origin);
                    None
                }
                LoopEvent::Cancelled => {
                    asked_to_stop = true;
                    let ended = self.cancel(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next_deadline());
                    ended
                }
                LoopEvent::TimerFired => {
                    let ended = self.handle_timers(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next_deadline());
                    ended
                }
            };
            if let Some(ended) = ended {
                self.drop_pending_steers(&mut batch);
                io.events.send(batch).await;
                self.tools.clear_calls();
                self.flush().await;
                self.in_turn = false;
                return self.with_retry_after(ended);
            }
        }
    }

    /// Sets `retry_after` of a rate limit. The translator knows when the limit resets, but has no
    /// clock.
    fn with_retry_after(&self, mut ended: AgentOutcome) -> AgentOutcome {
        if let TurnStatus::Failed(failure) = &mut ended.status
            && failure.kind == FailureKind::RateLimited
            && let Some(resets_at) = self.translator.resets_at()
        {
            let wait = resets_at.duration_since(self.settings.clock.now());
            failure.retry_after = Duration::try_from(wait).ok().or(failure.retry_after);
        }
        ended
    }

    fn cancel(
        &mut self,
        clocks: &mut TurnTimers,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        if self.translator.in_background() {
            return Some(self.stop_background(batch));
        }
        self.send_request(&ControlCommand::Interrupt);
        clocks.start_stop_timers();
        None
    }

    fn handle_timers(
        &mut self,
        clocks: &mut TurnTimers,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        match clocks.take_due() {
            Some(DueAction::GiveUp) => {
                self.retired = true;
                // Close open blocks and tool calls. The returned end is not used: the turn ends as
                // interrupted.
                let _not_its_end = self.translator.end_of_output(batch);
                return Some(interrupted_outcome(
                    "interrupted; the agent did not react and is ended",
                ));
            }
            Some(DueAction::RepeatStop) => {
                self.send_request(&ControlCommand::Interrupt);
            }
            None => {}
        }
        clocks.check_exit(&mut self.link);
        None
    }

    /// Stops the background tasks and ends the turn with the answer it already has.
    fn stop_background(&mut self, batch: &mut Vec<AgentEvent>) -> AgentOutcome {
        let running: Vec<String> = (self.translator.running_tasks()).map(str::to_owned).collect();
        for task in &running {
            self.send_request(&ControlCommand::StopTask(task));
        }
        self.send_request(&ControlCommand::Interrupt);
        self.translator.end_background(batch)
    }

    /// Discards output since the last turn and waits until the program runs no turn of its own: a
    /// message written during such a turn would be folded into it. Returns `false` if the program
    /// has exited.
    async fn drain_until_idle(&mut self) -> bool {
        let mut nobody = Vec::new();
        loop {
            nobody.clear();
            self.discard_output(&mut nobody);
            match self.link.output.read().now_or_never() {
                Some(true) => {}
                Some(false) => return false,
                None => break,
            }
        }
        if !self.translator.runs_foreign_turn() {
            return true;
        }
        self.send_request(&ControlCommand::Interrupt);
        let idle = async {
            while self.translator.runs_foreign_turn() {
                self.link.input.write_all().await;
                if !self.link.output.read().await {
                    return false;
                }
                self.discard_output(&mut Vec::new());
            }
            true
        };
        timeout(STOP_TIMEOUT, idle).await.unwrap_or(false)
    }

    fn discard_output(&mut self, nobody: &mut Vec<AgentEvent>) {
        self.translate(nobody);
        self.deny_orphaned_approvals(nobody);
    }
}

fn ends_with_delta(batch: &[AgentEvent]) -> bool {
    matches!(batch.last(), Some(AgentEvent::Event(EventKind::Delta { .. })))
}
