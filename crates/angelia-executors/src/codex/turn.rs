//! Runs one turn: sends `turn/start` and handles everything until the turn ends. The loop waits for
//! the process, the engine and the timers at once; each batch of messages read from the inbox
//! becomes one batch of events.
//!
//! ```text
//!     turn/start ─►  running ─► turn/completed ─► Ended
//!                      │  ▲
//!  cancel: interrupt ──┤  └── decisions, tool results, steering input
//!                      │
//!  no end 5 s after the interrupt, or the process exits ──► Ended, and the agent is retired
//! ```

use std::time::Duration;

use angelia_core::{
    model::{Content, Message, Part, Role, Status, Turn},
    ports::{Emitted, Ended, TurnControl, TurnIo},
};
use tokio::{
    sync::oneshot,
    time::{sleep_until, timeout},
};

use super::{
    agent::{CodexAgent, not_steered},
    calls::PermittedTurn,
    protocol::{
        history,
        message::RpcError,
        outgoing::{InjectItems, TurnStart, user_input},
    },
    server::{Answered, CallError, Said},
};
use crate::turn_clocks::{Due, STOP_LIMIT, TurnClocks, interrupted};

/// How often an interrupt is repeated: one that arrives before the turn has an id has no effect.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(500);

/// The most text, in characters, that Codex accepts as the input of one turn.
const MOST_CHARACTERS: usize = 1 << 20;

/// The next thing that happens in a turn.
enum Step {
    Said,
    Accepted(Answered),
    Steered(bool),
    Control(Option<TurnControl>),
    Cancelled,
    Rang,
}

impl CodexAgent {
    pub(super) async fn turn(&mut self, turn: &Turn, mut io: TurnIo) -> Ended {
        if io.cancel.is_cancelled() {
            return interrupted("interrupted before it began");
        }
        if !self.settle().await {
            return Ended::failed(self.lost("before the turn").await);
        }
        if let Some(failure) = self.login_problem().await {
            return Ended::failed(failure);
        }
        self.leftovers.begin();
        let ended = self.run_turn(turn, &mut io).await;
        self.in_turn = false;
        self.leftovers.end();
        // On any other outcome commands may still run, or the sandbox may have left folders behind.
        if ended.status != Status::Completed {
            self.clean_up().await;
        }
        ended
    }

    async fn run_turn(&mut self, turn: &Turn, io: &mut TurnIo) -> Ended {
        self.translator.begin_turn();
        let input = match self.told_before(&turn.input).await {
            Ok(true) => &[],
            Ok(false) => &*turn.input,
            Err(error) => return Ended::failed(error.failure("take the message")),
        };
        let mut accepted = Some(self.begin(turn, input).await);
        self.in_turn = true;
        io.events.send(std::mem::take(&mut self.first_words)).await;

        let mut clocks = TurnClocks::new(INTERRUPT_AGAIN);
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut said: Vec<Said> = Vec::new();
        let mut batch: Vec<Emitted> = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next());
        tokio::pin!(cancelled, clock);
        loop {
            // Reading the process comes last, so that a flood of output cannot starve the other
            // branches.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => Step::Cancelled,
                control = io.control.recv(), if control_open => Step::Control(control),
                answer = answer_of(&mut accepted), if accepted.is_some() => Step::Accepted(answer),
                taken = taken(&mut self.steering), if self.steering.is_some() => Step::Steered(taken),
                () = &mut clock => Step::Rang,
                () = self.inbox.next(&mut said) => Step::Said,
            };
            let ended = match step {
                Step::Said if said.is_empty() => Some(self.output_ended(&mut batch).await),
                Step::Said => self.translate(&mut said, &mut batch).await,
                Step::Accepted(answer) => {
                    accepted = None;
                    let refused = self.accepted(answer, &mut batch);
                    // The cancellation came before the turn had an id: interrupt it now that it has
                    // one.
                    if asked_to_stop {
                        self.interrupt().await;
                    }
                    refused
                }
                Step::Steered(taken) => {
                    self.steering = None;
                    if !taken {
                        batch.push(not_steered());
                    }
                    None
                }
                Step::Control(None) => {
                    control_open = false;
                    None
                }
                Step::Control(Some(control)) => {
                    self.control(control).await;
                    None
                }
                Step::Cancelled => {
                    asked_to_stop = true;
                    clocks.told_to_stop();
                    self.interrupt().await;
                    clock.as_mut().reset(clocks.next());
                    None
                }
                Step::Rang => {
                    let ended = self.rang(&mut clocks, &mut batch).await;
                    clock.as_mut().reset(clocks.next());
                    ended
                }
            };
            self.pass_held_words().await;
            if let Some(ended) = ended {
                self.drop_held_words(&mut batch).await;
                io.events.send(batch).await;
                return ended;
            }
            io.events.send(std::mem::take(&mut batch)).await;
        }
    }

    /// Injects input that is too long for one turn into the thread's history, and returns whether
    /// it did; the turn is then started without input of its own.
    async fn told_before(&mut self, input: &[Content]) -> Result<bool, CallError> {
        let length = |content: &Content| match content {
            Content::Text(text) => text.chars().count(),
            Content::Image { .. } => 0,
        };
        if input.iter().map(length).sum::<usize>() <= MOST_CHARACTERS {
            return Ok(false);
        }
        let message =
            Message { role: Role::User, parts: input.iter().cloned().map(Part::Content).collect() };
        let items = InjectItems { thread_id: &self.thread, items: history::items(&[message]) };
        self.server.call(&items).await?;
        Ok(true)
    }

    async fn begin(&mut self, turn: &Turn, input: &[Content]) -> oneshot::Receiver<Answered> {
        let id = turn.id.to_string();
        let call = PermittedTurn {
            turn: TurnStart {
                thread_id: &self.thread,
                input: user_input(input),
                client_user_message_id: Some(&id),
                model: None,
                effort: None,
                output_schema: self.settings.output_schema.as_deref(),
            },
            permissions: self.settings.permissions,
            approval_policy: self.settings.approval_policy,
        };
        self.server.begin(&call).await
    }

    fn accepted(&mut self, answer: Answered, batch: &mut Vec<Emitted>) -> Option<Ended> {
        match answer {
            Ok(result) => {
                self.translator.turn_accepted(&result, batch);
                None
            }
            Err(error) => Some(self.translator.turn_refused(&error, batch)),
        }
    }

    async fn rang(&mut self, clocks: &mut TurnClocks, batch: &mut Vec<Emitted>) -> Option<Ended> {
        match clocks.due()? {
            Due::TellAgain => {
                self.interrupt().await;
                None
            }
            Due::GiveUp => {
                self.retired = true;
                self.condemn_if_stuck().await;
                // Close the open text blocks and tool calls. The outcome is the one below, not the
                // one that the translator reports.
                let _not_its_end = self.translator.end_of_output(batch);
                Some(interrupted("interrupted; the agent did not react and is ended"))
            }
        }
    }

    /// Processes the messages received since the last turn, and interrupts a turn that still runs:
    /// Codex would take a `turn/start` during another turn as steering input for that turn. Returns
    /// `false` if the process is gone or does not become idle in time.
    async fn settle(&mut self) -> bool {
        let (mut said, mut nobody) = (Vec::new(), Vec::new());
        self.inbox.now(&mut said);
        self.translate(&mut said, &mut nobody).await;
        self.refuse_unheard(&nobody).await;
        if !self.server.is_open() || self.retired {
            return false;
        }
        if self.translator.active_turn().is_none() {
            return true;
        }
        self.interrupt().await;
        let idle = async {
            while self.translator.active_turn().is_some() {
                self.inbox.next(&mut said).await;
                if said.is_empty() {
                    return false;
                }
                nobody.clear();
                self.translate(&mut said, &mut nobody).await;
                self.refuse_unheard(&nobody).await;
            }
            true
        };
        timeout(STOP_LIMIT, idle).await.unwrap_or(false)
    }
}

/// Waits for the response to `turn/start`. Stays pending if the process exits, because the closed
/// inbox then ends the turn with a better reason.
async fn answer_of(accepted: &mut Option<oneshot::Receiver<Answered>>) -> Answered {
    match accepted {
        Some(answer) => match answer.await {
            Ok(answer) => answer,
            Err(_gone) => std::future::pending().await,
        },
        None => std::future::pending::<Result<_, RpcError>>().await,
    }
}

/// Waits for the response to `turn/steer` and returns whether Codex accepted the input.
async fn taken(steering: &mut Option<oneshot::Receiver<Answered>>) -> bool {
    match steering {
        Some(answer) => matches!(answer.await, Ok(Ok(_))),
        None => std::future::pending().await,
    }
}
