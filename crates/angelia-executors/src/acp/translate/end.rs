//! The end of a turn: the answer to its prompt, or the end of the agent's output.

use angelia_core::{
    model::{EventKind, Failure, FailureKind, TurnStatus},
    ports::{AgentEvent, AgentOutcome},
};
use angelia_wire::jsonrpc::ErrorObject;
use serde_json::value::RawValue;

use super::{AcpTranslator, emit_event, usage};
use crate::acp::{failure::AcpFailureContext, protocol::incoming::PromptResult};

const REPHRASE_HINT: &str = "rephrase the message, or choose another `model`";

impl AcpTranslator {
    /// Ends the turn with the answer to its prompt.
    pub fn on_prompt_response(
        &mut self,
        result: Result<&RawValue, ErrorObject>,
        out: &mut Vec<AgentEvent>,
    ) -> AgentOutcome {
        match result {
            Ok(result) => self.complete(result, out),
            Err(error) => {
                self.close_turn(out);
                // An error after a cancel is a consequence of the cancel.
                if self.stopping {
                    return AgentOutcome::interrupted("interrupted");
                }
                let around =
                    AcpFailureContext { agent: &self.context.agent, action: "take the message" };
                AgentOutcome::failed(around.describe(&error))
            }
        }
    }

    fn complete(&mut self, result: &RawValue, out: &mut Vec<AgentEvent>) -> AgentOutcome {
        let answer: PromptResult<'_> = serde_json::from_str(result.get()).unwrap_or_default();
        if let (Some(turn), Some(tokens)) = (&mut self.turn, answer.tokens()) {
            usage::set_tokens(&mut turn.usage, tokens);
        }
        self.close_turn(out);
        let reason = answer.stop_reason.as_str().unwrap_or("end_turn");
        match reason {
            "cancelled" if self.stopping => AgentOutcome::interrupted("interrupted"),
            "cancelled" => AgentOutcome::interrupted("the agent cancelled the turn"),
            // The turn was complete before the cancel took effect. Its text stays, but a cancelled
            // turn is always reported as interrupted.
            _ if self.stopping => AgentOutcome::interrupted("interrupted"),
            "refusal" => {
                let agent = self.context.agent.name();
                let failure = Failure::new(
                    FailureKind::Refused,
                    format!("{agent} refused to continue with this"),
                );
                AgentOutcome::failed(failure.with_hint(REPHRASE_HINT))
            }
            "max_turn_requests" => outcome(TurnStatus::Partial, reason),
            _ => outcome(TurnStatus::Completed, reason),
        }
    }

    /// Ends the turn without an answer, because the agent has exited or was given up. Returns
    /// `None` if no turn is running.
    pub fn on_end_of_output(&mut self, out: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        let was_stopping = self.stopping;
        self.turn.as_ref()?;
        self.close_turn(out);
        Some(if was_stopping {
            AgentOutcome::interrupted("interrupted")
        } else {
            let agent = self.context.agent.name();
            let message = format!("{agent} ended in the middle of the turn");
            AgentOutcome::failed(Failure::new(FailureKind::Agent, message))
        })
    }

    /// Withdraws the approvals, closes the open block and tool calls, and reports the usage.
    fn close_turn(&mut self, out: &mut Vec<AgentEvent>) {
        for decided in std::mem::take(&mut self.pending_approvals) {
            out.push(AgentEvent::ApprovalWithdrawn(decided.into_key()));
        }
        let Some(mut turn) = self.turn.take() else {
            return;
        };
        turn.texts.close(out);
        turn.tools.finish_all(out);
        self.past_tool_calls = turn.tools.native_ids().map(Into::into).collect();
        turn.usage.cost_usd = self.cost.turn_cost();
        emit_event(EventKind::Usage(turn.usage), out);
    }
}

fn outcome(status: TurnStatus, reason: &str) -> AgentOutcome {
    AgentOutcome { status, text: None, reason: reason.into() }
}
