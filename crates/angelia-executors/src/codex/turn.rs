//! The steps of one turn: `turn/start`, everything until `turn/completed`, and the interrupt in
//! between. The loop is in [`turn_driver`](crate::turn_driver).

use std::time::Duration;

use angelia_core::{
    model::{Content, Decision, Failure, HistoryMessage, MessagePart, Role, Turn, TurnStatus},
    ports::{AgentEvent, AgentOutcome, TurnControl},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    agent::{CodexAgent, WIND_DOWN_TIMEOUT},
    app_server::{CallResult, CodexCallError, ThreadMessage},
    calls::TurnStartWithPermissions,
    protocol::{
        history,
        outgoing::{ApprovalPolicy, ThreadInjectItems, TurnStart, to_user_input},
    },
    translate::DeferredReply,
};
use crate::turn_driver::{TurnProtocol, not_steered_notice};

/// The maximum number of characters of text that Codex accepts as the input of one turn.
const MAX_INPUT_CHARS: usize = 1 << 20;

pub(super) enum CodexInput {
    Messages(Vec<ThreadMessage>),
    /// The response to `turn/start`.
    TurnResponse(CallResult),
    /// The response to `turn/steer`: whether Codex accepted the input.
    SteerResponse(bool),
}

impl TurnProtocol for CodexAgent {
    type Input = CodexInput;

    const STOP_INTERVAL: Duration = Duration::from_millis(500);

    fn is_open(&mut self) -> bool {
        self.server.accepts_threads()
    }

    /// Codex would treat a `turn/start` during another turn as steering input for that turn.
    fn runs_foreign_turn(&self) -> bool {
        self.translator.active_turn().is_some()
    }

    async fn begin(&mut self, turn: &Turn, _batch: &mut Vec<AgentEvent>) -> Result<(), Failure> {
        if let Some(failure) = self.login_failure().await {
            return Err(failure);
        }
        if self.settings.max_cost_usd.or(turn.options.max_cost_usd).is_some() {
            self.translator.ensure_priced()?;
        }
        self.translator.begin_turn();
        self.stop_requested = false;
        let input = match self.inject_if_too_long(&turn.input).await {
            Ok(true) => &[],
            Ok(false) => &*turn.input,
            Err(error) => return Err(error.to_failure("take the message")),
        };
        self.sandbox_cleanup.mark_busy();
        self.turn_response = Some(self.send_turn_start(turn, input).await);
        Ok(())
    }

    async fn next_input(&mut self) -> Option<CodexInput> {
        tokio::select! {
            biased;
            // Without a response, the process has exited; the closed inbox then ends the turn with
            // a better reason.
            Some(response) = take_response(&mut self.turn_response) => {
                Some(CodexInput::TurnResponse(response))
            }
            response = take_response(&mut self.steer_response) => {
                Some(CodexInput::SteerResponse(matches!(response, Some(Ok(_)))))
            }
            messages = self.inbox.recv_batch() => {
                (!messages.is_empty()).then_some(CodexInput::Messages(messages))
            }
        }
    }

    async fn handle_input(
        &mut self,
        input: CodexInput,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let ended = match input {
            CodexInput::Messages(messages) => self.translate(messages, batch).await,
            CodexInput::TurnResponse(Ok(result)) => {
                self.translator.on_turn_accepted(&result, batch);
                // The stop arrived before the turn had an id: interrupt it now that it has one.
                if self.stop_requested {
                    self.interrupt().await;
                }
                None
            }
            CodexInput::TurnResponse(Err(error)) => {
                Some(self.translator.on_turn_refused(&error, batch))
            }
            CodexInput::SteerResponse(accepted) => {
                if !accepted {
                    batch.push(not_steered_notice());
                }
                None
            }
        };
        self.send_pending_steers().await;
        ended
    }

    async fn handle_control(&mut self, control: TurnControl, _batch: &mut Vec<AgentEvent>) -> bool {
        let reply = match control {
            TurnControl::Decide { key, decision } => self.translator.decide(&key, &decision),
            TurnControl::ToolResult { id, ok, content } => {
                self.translator.on_tool_result(&id, ok, &content)
            }
            TurnControl::Steer(content) => {
                self.pending_steers.push(content);
                None
            }
            TurnControl::Proceed { key } => self.translator.proceed(&key),
        };
        if let Some(DeferredReply { id, result, then_interrupt, then_steer }) = reply {
            self.server.reply(id, Ok(result)).await;
            if then_interrupt {
                self.interrupt().await;
            }
            if let Some(words) = then_steer {
                self.pending_steers.push(vec![Content::Text(words)]);
            }
        }
        self.send_pending_steers().await;
        false
    }

    async fn stop(&mut self, _batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.stop_requested = true;
        self.interrupt().await;
        None
    }

    async fn give_up(&mut self) {
        self.drain_if_stuck().await;
    }

    fn end_of_output(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.translator.on_end_of_output(batch)
    }

    async fn exit_failure(&mut self, when: &str) -> Failure {
        self.connection_failure(when).await
    }

    async fn add_last_events(&mut self, batch: &mut Vec<AgentEvent>) {
        let mut lost = !std::mem::take(&mut self.pending_steers).is_empty();
        if let Some(response) = self.steer_response.take() {
            let accepted = timeout(WIND_DOWN_TIMEOUT, response).await;
            lost |= !matches!(accepted, Ok(Ok(Ok(_))));
        }
        if lost {
            batch.push(not_steered_notice());
        }
    }

    async fn finish(&mut self, outcome: AgentOutcome) -> AgentOutcome {
        self.turn_response = None;
        self.sandbox_cleanup.mark_idle();
        // On any other outcome, commands may still run, or the sandbox may have left folders
        // behind.
        if outcome.status != TurnStatus::Completed {
            self.clean_up().await;
        }
        outcome
    }

    async fn deny_orphan(&mut self, key: &str, refusal: &Decision) {
        if let Some(reply) = self.translator.decide(key, refusal) {
            self.server.reply(reply.id, Ok(reply.result)).await;
        }
    }

    async fn close(self, grace: Duration) {
        self.release(grace).await;
    }
}

impl CodexAgent {
    /// Injects input that is too long for one turn into the thread's history. Returns whether it
    /// did; the turn is then started without input of its own.
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
            approval_policy: ApprovalPolicy::Untrusted,
        };
        self.server.send_request(&call).await
    }
}

/// Waits for a response and forgets its receiver; waits forever if there is none. Returns `None` if
/// the process has exited. Cancel-safe.
async fn take_response(response: &mut Option<oneshot::Receiver<CallResult>>) -> Option<CallResult> {
    let Some(receiver) = response else {
        return std::future::pending().await;
    };
    let result = receiver.await.ok();
    *response = None;
    result
}
