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
    model::{EventKind, FailureKind, Status, Turn},
    ports::{Emitted, Ended, TurnControl, TurnIo},
};
use futures_util::FutureExt as _;
use tokio::{
    task::yield_now,
    time::{sleep_until, timeout},
};

use super::{
    agent::StreamAgent,
    protocol::outgoing::{self, Request},
};
use crate::{
    link::Link,
    turn_clocks::{Due, STOP_LIMIT, TurnClocks, interrupted},
};

/// How often to repeat an interrupt: one that arrives before the program has started on the message
/// has no effect.
const INTERRUPT_AGAIN: Duration = Duration::from_secs(1);

/// One iteration of the event loop.
enum Step {
    Read,
    OutputEnded,
    Wrote,
    Control(TurnControl),
    ControlClosed,
    Cancelled,
    Rang,
}

impl StreamAgent {
    pub(super) async fn turn(&mut self, turn: &Turn, mut io: TurnIo) -> Ended {
        if io.cancel.is_cancelled() {
            return interrupted("interrupted before it began");
        }
        if !self.settle().await {
            return self.ended_between_turns().await;
        }
        let uuid = self.settings.clock.fresh_uuid().to_string();
        self.translator.begin_turn(&uuid);
        self.ground_spending();
        let message = outgoing::user_message(&uuid, &self.content(turn));
        self.link.input.push(message);
        self.in_turn = true;
        io.events.send(std::mem::take(&mut self.first_words)).await;

        let mut clocks = TurnClocks::new(INTERRUPT_AGAIN);
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut has_spoken = false;
        let mut batch = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next());
        tokio::pin!(cancelled, clock);
        loop {
            let Link { input, output, .. } = &mut self.link;
            let has_more = input.has_more();
            // Reading comes last, so that a flood of output cannot starve the other branches.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => Step::Cancelled,
                control = io.control.recv(), if control_open => {
                    control.map_or(Step::ControlClosed, Step::Control)
                }
                () = input.write(), if has_more => Step::Wrote,
                () = &mut clock => Step::Rang,
                more = output.read() => if more { Step::Read } else { Step::OutputEnded },
            };
            let ended = match step {
                Step::Read => {
                    let mut ended = None;
                    if !has_spoken {
                        ended = self.translate_until(&mut batch, ends_with_words);
                        has_spoken = ends_with_words(&batch);
                        if has_spoken {
                            // Send the first delta before translating the rest, and yield: on a
                            // single processor the receiver should run now.
                            io.events.send(std::mem::take(&mut batch)).await;
                            yield_now().await;
                            std::thread::yield_now();
                        }
                    }
                    ended = ended.or_else(|| self.translate(&mut batch));
                    self.pass_held_words();
                    io.events.send(std::mem::take(&mut batch)).await;
                    ended
                }
                Step::OutputEnded => {
                    let ended = self.output_ended(&mut batch).await;
                    io.events.send(std::mem::take(&mut batch)).await;
                    Some(ended)
                }
                Step::Wrote => None,
                Step::ControlClosed => {
                    control_open = false;
                    None
                }
                Step::Control(control) => {
                    self.control(control, turn.options.origin);
                    None
                }
                Step::Cancelled => {
                    asked_to_stop = true;
                    let ended = self.cancel(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    ended
                }
                Step::Rang => {
                    let ended = self.rang(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    ended
                }
            };
            if let Some(ended) = ended {
                self.drop_held_words(&mut batch);
                io.events.send(batch).await;
                self.tools.forget_calls();
                self.flush().await;
                self.in_turn = false;
                return self.with_wait(ended);
            }
        }
    }

    /// Sets `retry_after` of a rate limit. The translator knows when the limit resets, but has no
    /// clock.
    fn with_wait(&self, mut ended: Ended) -> Ended {
        if let Status::Failed(failure) = &mut ended.status
            && failure.kind == FailureKind::RateLimited
            && let Some(resets_at) = self.translator.resets_at()
        {
            let wait = resets_at.duration_since(self.settings.clock.now());
            failure.retry_after = Duration::try_from(wait).ok().or(failure.retry_after);
        }
        ended
    }

    fn cancel(&mut self, clocks: &mut TurnClocks, batch: &mut Vec<Emitted>) -> Option<Ended> {
        if self.translator.in_background() {
            return Some(self.stop_background(batch));
        }
        self.request(&Request::Interrupt);
        clocks.told_to_stop();
        None
    }

    fn rang(&mut self, clocks: &mut TurnClocks, batch: &mut Vec<Emitted>) -> Option<Ended> {
        match clocks.due() {
            Some(Due::GiveUp) => {
                self.retired = true;
                // Close open blocks and tool calls. The returned end is not used: the turn ends as
                // interrupted.
                let _not_its_end = self.translator.end_of_output(batch);
                return Some(interrupted("interrupted; the agent did not react and is ended"));
            }
            Some(Due::TellAgain) => {
                self.request(&Request::Interrupt);
            }
            None => {}
        }
        clocks.look_after(&mut self.link);
        None
    }

    /// Stops the background tasks and ends the turn with the answer it already has.
    fn stop_background(&mut self, batch: &mut Vec<Emitted>) -> Ended {
        let running: Vec<String> = (self.translator.running_tasks()).map(str::to_owned).collect();
        for task in &running {
            self.request(&Request::StopTask(task));
        }
        self.request(&Request::Interrupt);
        self.translator.end_background(batch)
    }

    /// Discards output since the last turn and waits until the program runs no turn of its own: a
    /// message written during such a turn would be folded into it. Returns `false` if the program
    /// has exited.
    async fn settle(&mut self) -> bool {
        let mut nobody = Vec::new();
        loop {
            nobody.clear();
            self.translate_for_nobody(&mut nobody);
            match self.link.output.read().now_or_never() {
                Some(true) => {}
                Some(false) => return false,
                None => break,
            }
        }
        if !self.translator.is_busy_elsewhere() {
            return true;
        }
        self.request(&Request::Interrupt);
        let idle = async {
            while self.translator.is_busy_elsewhere() {
                self.link.input.write_all().await;
                if !self.link.output.read().await {
                    return false;
                }
                self.translate_for_nobody(&mut Vec::new());
            }
            true
        };
        timeout(STOP_LIMIT, idle).await.unwrap_or(false)
    }

    fn translate_for_nobody(&mut self, nobody: &mut Vec<Emitted>) {
        self.translate(nobody);
        self.refuse_unheard(nobody);
    }
}

fn ends_with_words(batch: &[Emitted]) -> bool {
    matches!(batch.last(), Some(Emitted::Event(EventKind::Delta { .. })))
}
