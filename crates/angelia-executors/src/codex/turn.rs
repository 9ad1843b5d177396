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
    model::{Content, HistoryMessage, MessagePart, Role, Turn, TurnStatus},
    ports::{AgentEvent, AgentOutcome, TurnControl, TurnIo},
};
use tokio::{
    sync::oneshot,
    time::{sleep_until, timeout},
};

use super::{
    agent::{CodexAgent, not_steered_notice},
    app_server::{CallResult, CodexCallError, ThreadMessage},
    calls::TurnStartWithPermissions,
    protocol::{
        history,
        message::RpcError,
        outgoing::{ThreadInjectItems, TurnStart, to_user_input},
    },
};
use crate::turn_timers::{DueAction, STOP_TIMEOUT, TurnTimers, interrupted_outcome};

/// How often an interrupt is repeated: one that arrives before the turn has an id has no effect.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(500);

/// The most text, in characters, that Codex accepts as the input of one turn.
const MAX_INPUT_CHARS: usize = 1 << 20;

/// The next thing that happens in a turn.
enum LoopEvent {
    Messages,
    Accepted(CallResult),
    SteerAnswered(bool),
    Control(Option<TurnControl>),
    Cancelled,
    TimerFired,
}

impl CodexAgent {
    pub(super) async fn run_turn(&mut self, turn: &Turn, mut io: TurnIo) -> AgentOutcome {
        if io.cancel.is_cancelled() {
            return interrupted_outcome("interrupted before it began");
        }
        if !self.drain_until_idle().await {
            return AgentOutcome::failed(self.connection_failure("before the turn").await);
        }
        if let Some(failure) = self.login_failure().await {
            return AgentOutcome::failed(failure);
        }
        self.sandbox_cleanup.mark_busy();
        let ended = self.run_turn_loop(turn, &mut io).await;
        self.in_turn = false;
        self.sandbox_cleanup.mark_idle();
        // On any other outcome commands may still run, or the sandbox may have left folders behind.
        if ended.status != TurnStatus::Completed {
            self.clean_up().await;
        }
        ended
    }

    async fn run_turn_loop(&mut self, turn: &Turn, io: &mut TurnIo) -> AgentOutcome {
        self.translator.begin_turn();
        let input = match self.inject_if_too_long(&turn.input).await {
            Ok(true) => &[],
            Ok(false) => &*turn.input,
            Err(error) => return AgentOutcome::failed(error.to_failure("take the message")),
        };
        let mut accepted = Some(self.send_turn_start(turn, input).await);
        self.in_turn = true;
        io.events.send(std::mem::take(&mut self.startup_events)).await;

        let mut clocks = TurnTimers::new(INTERRUPT_INTERVAL);
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut said: Vec<ThreadMessage> = Vec::new();
        let mut batch: Vec<AgentEvent> = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next_deadline());
        tokio::pin!(cancelled, clock);
        loop {
            // Reading the process comes last, so that a flood of output cannot starve the other
            // branches.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => LoopEvent::Cancelled,
                control = io.control.recv(), if control_open => LoopEvent::Control(control),
                answer = turn_response(&mut accepted), if accepted.is_some() => LoopEvent::Accepted(answer),
                taken = steer_accepted(&mut self.steer_response), if self.steer_response.is_some() => LoopEvent::SteerAnswered(taken),
                () = &mut clock => LoopEvent::TimerFired,
                () = self.inbox.recv_batch(&mut said) => LoopEvent::Messages,
            };
            let ended = match step {
                LoopEvent::Messages if said.is_empty() => {
                    Some(self.handle_end_of_output(&mut batch).await)
                }
                LoopEvent::Messages => self.translate(&mut said, &mut batch).await,
                LoopEvent::Accepted(answer) => {
                    accepted = None;
                    let refused = self.on_turn_response(answer, &mut batch);
                    // The cancellation came before the turn had an id: interrupt it now that it has
                    // one.
                    if asked_to_stop {
                        self.interrupt().await;
                    }
                    refused
                }
                LoopEvent::SteerAnswered(taken) => {
                    self.steer_response = None;
                    if !taken {
                        batch.push(not_steered_notice());
                    }
                    None
                }
                LoopEvent::Control(None) => {
                    control_open = false;
                    None
                }
                LoopEvent::Control(Some(control)) => {
                    self.handle_control(control).await;
                    None
                }
                LoopEvent::Cancelled => {
                    asked_to_stop = true;
                    clocks.start_stop_timers();
                    self.interrupt().await;
                    clock.as_mut().reset(clocks.next_deadline());
                    None
                }
                LoopEvent::TimerFired => {
                    let ended = self.handle_timers(&mut clocks, &mut batch).await;
                    clock.as_mut().reset(clocks.next_deadline());
                    ended
                }
            };
            self.send_pending_steers().await;
            if let Some(ended) = ended {
                self.drop_pending_steers(&mut batch).await;
                io.events.send(batch).await;
                return ended;
            }
            io.events.send(std::mem::take(&mut batch)).await;
        }
    }

    /// Injects input that is too long for one turn into the thread's history, and returns whether
    /// it did; the turn is then started without input of its own.
    async fn inject_if_too_long(&mut self, input: &[Content]) -> Result<bool, CodexCallError> {
        let length = |content: &Content| match content {
            Content::Text(text) => text.chars().count(),
            Content::Image { .. } => 0,
        };
        if input.iter().map(length).sum::<usize>() <= MAX_INPUT_CHARS {
            return Ok(false);
        }
        let message = HistoryMessage {
            role: Role::User,
            parts: input.iter().cloned().map(MessagePart::Content).collect(),
        };
        let items =
            ThreadInjectItems { thread_id: &self.thread, items: history::to_api_items(&[message]) };
        self.server.call(&items).await?;
        Ok(true)
    }

    async fn send_turn_start(
        &mut self,
        turn: &Turn,
        input: &[Content],
    ) -> oneshot::Receiver<CallResult> {
        let id = turn.id.to_string();
        let call = TurnStartWithPermissions {
            turn: TurnStart {
                thread_id: &self.thread,
                input: to_user_input(input),
                client_user_message_id: Some(&id),
                model: None,
                effort: None,
                output_schema: self.settings.output_schema.as_deref(),
            },
            permissions: self.settings.permissions,
            approval_policy: self.settings.approval_policy,
        };
        self.server.send_request(&call).await
    }

    fn on_turn_response(
        &mut self,
        answer: CallResult,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        match answer {
            Ok(result) => {
                self.translator.on_turn_accepted(&result, batch);
                None
            }
            Err(error) => Some(self.translator.on_turn_refused(&error, batch)),
        }
    }

    async fn handle_timers(
        &mut self,
        clocks: &mut TurnTimers,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        match clocks.take_due()? {
            DueAction::RepeatStop => {
                self.interrupt().await;
                None
            }
            DueAction::GiveUp => {
                self.retired = true;
                self.drain_if_stuck().await;
                // Close the open text blocks and tool calls. The outcome is the one below, not the
                // one that the translator reports.
                let _not_its_end = self.translator.on_end_of_output(batch);
                Some(interrupted_outcome("interrupted; the agent did not react and is ended"))
            }
        }
    }

    /// Processes the messages received since the last turn, and interrupts a turn that still runs:
    /// Codex would take a `turn/start` during another turn as steering input for that turn. Returns
    /// `false` if the process is gone or does not become idle in time.
    async fn drain_until_idle(&mut self) -> bool {
        let (mut said, mut nobody) = (Vec::new(), Vec::new());
        self.inbox.try_recv_batch(&mut said);
        self.translate(&mut said, &mut nobody).await;
        self.deny_discarded_approvals(&nobody).await;
        if !self.server.is_running() || self.retired {
            return false;
        }
        if self.translator.active_turn().is_none() {
            return true;
        }
        self.interrupt().await;
        let idle = async {
            while self.translator.active_turn().is_some() {
                self.inbox.recv_batch(&mut said).await;
                if said.is_empty() {
                    return false;
                }
                nobody.clear();
                self.translate(&mut said, &mut nobody).await;
                self.deny_discarded_approvals(&nobody).await;
            }
            true
        };
        timeout(STOP_TIMEOUT, idle).await.unwrap_or(false)
    }
}

/// Waits for the response to `turn/start`. Stays pending if the process exits, because the closed
/// inbox then ends the turn with a better reason.
async fn turn_response(accepted: &mut Option<oneshot::Receiver<CallResult>>) -> CallResult {
    match accepted {
        Some(answer) => match answer.await {
            Ok(answer) => answer,
            Err(_gone) => std::future::pending().await,
        },
        None => std::future::pending::<Result<_, RpcError>>().await,
    }
}

/// Waits for the response to `turn/steer` and returns whether Codex accepted the input.
async fn steer_accepted(steering: &mut Option<oneshot::Receiver<CallResult>>) -> bool {
    match steering {
        Some(answer) => matches!(answer.await, Ok(Ok(_))),
        None => std::future::pending().await,
    }
}
