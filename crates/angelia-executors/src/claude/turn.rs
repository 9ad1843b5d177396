//! The steps of one turn: a message with a fresh uuid, its result, and the interrupt in between.
//! The loop is in [`turn_driver`](crate::turn_driver).
//!
//! ```text
//!   message ─► running ─► result, no tasks run ─► Ended
//!                 │
//!                 └─► result, tasks still run: background ── stop ─► tasks stopped, Ended
//! ```

use std::time::Duration;

use angelia_core::{
    model::{Decision, Failure, FailureKind, Turn, TurnStatus, Verdict},
    ports::{AgentEvent, AgentOutcome, TurnControl},
};
use angelia_wire::ndjson::Frame;

use super::{
    agent::StreamAgent,
    escape::TextHandling,
    protocol::outgoing::{self, ControlCommand},
    translate::StreamSignal,
};
use crate::turn_driver::{TurnProtocol, not_steered_notice};

impl TurnProtocol for StreamAgent {
    /// Signals that lines have arrived in the framer.
    type Input = ();

    const STOP_INTERVAL: Duration = Duration::from_secs(1);

    fn is_open(&mut self) -> bool {
        self.link.is_open()
    }

    fn runs_foreign_turn(&self) -> bool {
        self.translator.runs_foreign_turn()
    }

    async fn begin(&mut self, turn: &Turn, _batch: &mut Vec<AgentEvent>) -> Result<(), Failure> {
        let uuid = self.settings.clock.fresh_uuid().to_string();
        self.translator.begin_turn(&uuid);
        self.request_cost_baseline();
        let message = outgoing::user_message(&uuid, &self.message_content(turn));
        self.link.input.push(message);
        self.origin = turn.options.origin;
        self.awaits_first_delta = true;
        Ok(())
    }

    async fn next_input(&mut self) -> Option<()> {
        if self.has_unread_lines {
            return Some(());
        }
        self.link.exchange().await.then_some(())
    }

    async fn handle_input(&mut self, (): (), batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        let ended = self.translate(batch).await;
        self.send_pending_steers();
        ended
    }

    async fn handle_control(&mut self, control: TurnControl, _batch: &mut Vec<AgentEvent>) -> bool {
        let mut must_stop = false;
        let line = match control {
            TurnControl::Decide { key, decision } => {
                // The answer to a report cannot end the turn, so stop it explicitly.
                must_stop =
                    decision.verdict == Verdict::Stop && self.translator.is_pending_report(&key);
                self.translator.answer_approval(&key, &decision)
            }
            TurnControl::Proceed { key } => self.translator.proceed(&key),
            TurnControl::ToolResult { id, ok, content } => {
                self.tools.complete_call(id, ok, content)
            }
            TurnControl::Steer(content) => {
                let content = self.escape_untrusted(content, self.origin, TextHandling::Unverified);
                self.pending_steers.push(content);
                self.send_pending_steers();
                None
            }
        };
        if let Some(line) = line {
            self.link.input.push(line);
        }
        must_stop
    }

    /// Interrupts the turn. A turn in the background ends with the answer that it already has.
    async fn stop(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        let in_background = self.translator.in_background();
        if in_background {
            let tasks: Vec<String> = (self.translator.running_tasks()).map(str::to_owned).collect();
            for task in &tasks {
                self.send_request(&ControlCommand::StopTask(task));
            }
        }
        self.send_request(&ControlCommand::Interrupt);
        in_background.then(|| self.translator.end_background(batch))
    }

    fn end_of_output(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        while self.link.output.has_ended()
            && let Some(frame) = self.link.output.framer.finish()
        {
            if let Frame::Line(line) | Frame::Partial(line) = frame
                && let Some(StreamSignal::TurnEnded(ended)) =
                    self.translator.translate_line(line, batch)
            {
                return Some(ended);
            }
        }
        self.translator.end_of_output(batch)
    }

    async fn exit_failure(&mut self, when: &str) -> Failure {
        self.link.exit_failure(self.settings.title, when, &self.settings.redactor).await
    }

    async fn add_last_events(&mut self, batch: &mut Vec<AgentEvent>) {
        if !std::mem::take(&mut self.pending_steers).is_empty() {
            batch.push(not_steered_notice());
        }
    }

    async fn finish(&mut self, mut outcome: AgentOutcome) -> AgentOutcome {
        self.tools.clear_calls();
        self.link.flush().await;
        // The translator knows when a limit resets, but has no clock.
        if let TurnStatus::Failed(failure) = &mut outcome.status
            && failure.kind == FailureKind::RateLimited
            && let Some(resets_at) = self.translator.resets_at()
        {
            let wait = resets_at.duration_since(self.settings.clock.now());
            failure.retry_after = Duration::try_from(wait).ok().or(failure.retry_after);
        }
        outcome
    }

    async fn deny_orphan(&mut self, key: &str, refusal: &Decision) {
        if let Some(answer) = self.translator.answer_approval(key, refusal) {
            self.link.input.push(answer);
        }
    }

    async fn close(self, grace: Duration) {
        self.link.close(grace).await;
    }
}
