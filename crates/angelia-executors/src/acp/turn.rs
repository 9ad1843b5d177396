//! The steps of one turn, from `session/prompt` to its answer. The loop is in
//! [`turn_driver`](crate::turn_driver).
//!
//! ```text
//!   session/prompt ─► running ─► answer to the prompt ─► Ended
//!                        │
//!                        └─ stop: withdraw approvals, then session/cancel
//! ```

use std::time::Duration;

use angelia_core::{
    model::{Decision, Failure, NoticeLevel, Turn, TurnStatus, Verdict},
    ports::{AgentEvent, AgentOutcome, TurnControl},
};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};

use super::{
    agent::AcpAgent,
    client::ClientResponse,
    connection::{AcpCallError, PendingRequestKind},
    protocol::outgoing::{self, AcpCall},
};
use crate::turn_driver::{TurnProtocol, notice_event};

/// A tool call that was only announced is shown after this time, even if nothing more is known.
const ANNOUNCE_DELAY: Duration = Duration::from_millis(300);

/// How long to wait for the agent to refuse the barrier request.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

pub(super) enum AcpInput {
    /// Lines have arrived in the framer.
    Lines,
    /// A request from the agent has been executed.
    Response(ClientResponse),
    /// It is time to show tool calls that were only announced.
    AnnounceDue,
}

impl TurnProtocol for AcpAgent {
    type Input = AcpInput;

    const STOP_INTERVAL: Duration = Duration::from_secs(1);

    fn is_open(&mut self) -> bool {
        self.connection.link.is_open()
    }

    async fn begin(&mut self, turn: &Turn, batch: &mut Vec<AgentEvent>) -> Result<(), Failure> {
        if !self.settle().await {
            return Err(self.exit_failure("before the turn").await);
        }
        let content = self.prompt_content(turn);
        let (blocks, all) =
            outgoing::content_blocks(&content, self.translator.agent().accepts_images);
        let prompt = AcpCall::prompt(self.translator.session().as_str(), blocks);
        let connection = &mut self.connection;
        let request =
            connection.peer.request(prompt.method, &prompt.params, PendingRequestKind::Prompt);
        let Ok((_, line)) = request else {
            return Err(self.exit_failure("before the turn").await);
        };
        connection.link.input.push(line);
        self.translator.begin_turn(batch);
        if !all {
            let text = "this agent does not accept images; they were left out";
            batch.push(notice_event(NoticeLevel::Warning, "images_left_out", text.to_owned()));
        }
        Ok(())
    }

    async fn next_input(&mut self) -> Option<AcpInput> {
        let announce_at = self.announce_at;
        let announce = async {
            match announce_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            response = self.service.next_response() => Some(AcpInput::Response(response)),
            () = announce => Some(AcpInput::AnnounceDue),
            more = self.connection.link.exchange() => more.then_some(AcpInput::Lines),
        }
    }

    async fn handle_input(
        &mut self,
        input: AcpInput,
        batch: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        match input {
            AcpInput::Lines => {
                let ended = self.translate(batch).await;
                let announced = self.translator.has_announced_calls();
                let due = self.announce_at.unwrap_or_else(|| Instant::now() + ANNOUNCE_DELAY);
                self.announce_at = announced.then_some(due);
                return ended;
            }
            AcpInput::Response(response) => self.send_response(&response),
            AcpInput::AnnounceDue => {
                self.announce_at = None;
                self.translator.show_announced(batch);
            }
        }
        None
    }

    async fn handle_control(&mut self, control: TurnControl, batch: &mut Vec<AgentEvent>) -> bool {
        match control {
            TurnControl::Decide { key, decision } => {
                self.apply_decision(&key, &decision, batch).await;
                decision.verdict == Verdict::Stop
            }
            // Unexpected, because our capabilities say `steer: false`.
            TurnControl::Steer(_) => {
                let text = "ACP agents accept no messages during a turn; send it again afterwards";
                batch.push(notice_event(NoticeLevel::Warning, "not_steered", text.to_owned()));
                false
            }
            TurnControl::Proceed { key } => {
                let effect = self.translator.proceed(&key, batch);
                self.carry_out(effect).await;
                false
            }
            TurnControl::ToolResult { .. } => false,
        }
    }

    /// Cancels the turn. Answers the agent's open permission requests first, because the protocol
    /// requires a client to answer them as cancelled.
    async fn stop(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        for decided in self.translator.begin_stop(batch) {
            self.connection.send_decision(&decided);
        }
        let cancel = AcpCall::cancel(self.translator.session().as_str());
        let connection = &mut self.connection;
        let line = connection.peer.notification(cancel.method, Some(&cancel.params));
        connection.link.input.push(line);
        None
    }

    fn end_of_output(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.translator.on_end_of_output(batch)
    }

    async fn exit_failure(&mut self, when: &str) -> Failure {
        let agent = self.translator.agent().name();
        self.connection.link.exit_failure(&agent, when, &self.redactor).await
    }

    async fn finish(&mut self, outcome: AgentOutcome) -> AgentOutcome {
        self.connection.peer.retain(|kind| *kind != PendingRequestKind::Prompt);
        self.announce_at = None;
        self.unsettled = outcome.status != TurnStatus::Completed;
        self.connection.link.flush().await;
        self.with_stderr(outcome)
    }

    async fn deny_orphan(&mut self, key: &str, refusal: &Decision) {
        self.apply_decision(key, refusal, &mut Vec::new()).await;
    }

    async fn close(mut self, grace: Duration) {
        self.service.close().await;
        self.connection.link.close(grace).await;
    }
}

impl AcpAgent {
    /// Waits until the output of an interrupted turn has arrived, so that it does not become part
    /// of the next turn. Returns `false` if the agent has exited.
    async fn settle(&mut self) -> bool {
        if !std::mem::take(&mut self.unsettled) {
            return true;
        }
        // The agent answers in order, so output of an interrupted turn arrives before this answer.
        let call = AcpCall::barrier(self.translator.session().as_str());
        let Self { connection, translator, .. } = self;
        let mut discarded = Vec::new();
        let late = |method: &str, params: Option<&RawValue>| {
            translator.on_notification(method, params, &mut discarded);
        };
        let settled = connection.call(&call, SETTLE_LIMIT, late).await;
        !matches!(settled, Err(AcpCallError::Gone))
    }
}
