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
    model::{EventKind, Level, Notice, Status, Turn},
    ports::{Emitted, Ended, TurnControl, TurnIo},
};
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};

use super::{
    agent::AcpAgent,
    client::Served,
    connection::{CallError, Waiting},
    protocol::outgoing::{self, Call},
};
use crate::turn_clocks::{Due, TurnClocks, has_rung, interrupted};

/// A cancel that arrives before the agent has started the prompt has no effect, so it is repeated.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);

/// A tool call that is only announced is shown after this time, even if nothing more is known.
const ANNOUNCED: Duration = Duration::from_millis(300);

/// Limits the wait for the agent's refusal of the barrier request.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

/// The event that woke the loop of a turn.
enum Step {
    Read,
    OutputEnded,
    Wrote,
    Served(Served),
    Control(TurnControl),
    ControlClosed,
    Cancelled,
    Rang,
}

/// The timers of a turn.
struct Clocks {
    of_any_turn: TurnClocks,
    /// When to show tool calls that were only announced.
    announced: Option<Instant>,
}

impl Clocks {
    fn next(&self) -> Instant {
        let next = self.of_any_turn.next();
        self.announced.map_or(next, |at| at.min(next))
    }
}

impl AcpAgent {
    pub(super) async fn turn(&mut self, turn: &Turn, mut io: TurnIo) -> Ended {
        if io.cancel.is_cancelled() {
            return interrupted("interrupted before it began");
        }
        // Late output of the previous turn must not become part of this one.
        if !self.settle().await {
            return Ended::failed(self.died("before the turn").await);
        }
        let content = self.content(turn);
        let (blocks, all) = outgoing::blocks(&content, self.translator.greeting().images);
        let Ok(id) = self.connection.pending.ask(Waiting::Prompt) else {
            return Ended::failed(self.died("before the turn").await);
        };
        let prompt = Call::prompt(self.translator.session().as_str(), blocks);
        self.connection.link.input.push(prompt.line(&id));
        drop(content);
        self.in_turn = true;
        let mut batch = std::mem::take(&mut self.first_words);
        self.translator.begin_turn(&mut batch);
        if !all {
            let text = "this agent does not accept images; they were left out";
            let notice = Notice::new(Level::Warning, "images_left_out", text);
            batch.push(Emitted::Event(EventKind::Notice(notice)));
        }
        io.events.send(std::mem::take(&mut batch)).await;

        let ended = self.until_its_end(&mut io).await;
        self.connection.pending.give_up(&id);
        self.unsettled = ended.status != Status::Completed;
        self.flush().await;
        self.in_turn = false;
        self.with_last_words(ended)
    }

    async fn until_its_end(&mut self, io: &mut TurnIo) -> Ended {
        let mut clocks = Clocks { of_any_turn: TurnClocks::new(CANCEL_AGAIN), announced: None };
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut batch = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next());
        tokio::pin!(cancelled, clock);
        loop {
            let link = &mut self.connection.link;
            let has_more = link.input.has_more();
            // Reading comes last, so that a flood of output cannot starve the other branches.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => Step::Cancelled,
                control = io.control.recv(), if control_open => {
                    control.map_or(Step::ControlClosed, Step::Control)
                }
                served = self.service.next() => Step::Served(served),
                () = link.input.write(), if has_more => Step::Wrote,
                () = &mut clock => Step::Rang,
                more = link.output.read() => if more { Step::Read } else { Step::OutputEnded },
            };
            let ended = match step {
                Step::Read => {
                    let ended = self.translate(&mut batch).await;
                    clocks.announced = (self.translator.holds_back())
                        .then(|| clocks.announced.unwrap_or_else(|| Instant::now() + ANNOUNCED));
                    clock.as_mut().reset(clocks.next());
                    ended
                }
                Step::OutputEnded => Some(self.output_ended(&mut batch).await),
                Step::Wrote => None,
                Step::Served(served) => {
                    self.served(&served);
                    None
                }
                Step::ControlClosed => {
                    control_open = false;
                    None
                }
                Step::Control(control) => {
                    if self.control(control, &mut batch).await && !asked_to_stop {
                        asked_to_stop = true;
                        self.stop(&mut clocks, &mut batch);
                        clock.as_mut().reset(clocks.next());
                    }
                    None
                }
                Step::Cancelled => {
                    asked_to_stop = true;
                    self.stop(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    None
                }
                Step::Rang => {
                    let ended = self.rang(&mut clocks, &mut batch);
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

    fn stop(&mut self, clocks: &mut Clocks, batch: &mut Vec<Emitted>) {
        self.cancel(batch);
        clocks.of_any_turn.told_to_stop();
    }

    fn rang(&mut self, clocks: &mut Clocks, batch: &mut Vec<Emitted>) -> Option<Ended> {
        match clocks.of_any_turn.due() {
            Some(Due::GiveUp) => {
                self.retired = true;
                // Close the open blocks and tool calls; the outcome that this returns is not used.
                let _not_its_end = self.translator.end_of_output(batch);
                return Some(interrupted("interrupted; the agent did not react and is ended"));
            }
            Some(Due::TellAgain) => self.cancel(batch),
            None => {}
        }
        if has_rung(clocks.announced, Instant::now()) {
            clocks.announced = None;
            self.translator.show_announced(batch);
        }
        clocks.of_any_turn.look_after(&mut self.connection.link);
        None
    }

    /// Handles the output that arrived since the last turn, so that it does not become part of the
    /// next one. `false`: the agent has exited.
    async fn settle(&mut self) -> bool {
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
        let call = Call::settled(self.translator.session().as_str());
        let Self { connection, translator, .. } = self;
        let late = |method: &str, params: Option<&serde_json::value::RawValue>| {
            translator.notification(method, params, &mut nobody);
        };
        let settled = connection.call(&call, SETTLE_LIMIT, late).await;
        !matches!(settled, Err(CallError::Gone))
    }
}
