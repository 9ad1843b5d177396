//! The end of a turn: the answer to its prompt, or the end of the agent's output.

use angelia_core::{
    model::{EventKind, Failure, FailureKind, Status},
    ports::{Emitted, Ended},
};
use angelia_wire::jsonrpc::ErrorObject;
use serde_json::value::RawValue;

use super::{Translator, event, usage};
use crate::acp::{failure::Around, protocol::incoming::Prompted};

const REPHRASE: &str = "rephrase the message, or choose another `model`";

impl Translator {
    /// Ends the turn with the answer to its prompt.
    pub fn answered(
        &mut self,
        result: Result<&RawValue, ErrorObject<'_>>,
        out: &mut Vec<Emitted>,
    ) -> Ended {
        match result {
            Ok(result) => self.completed(result, out),
            Err(error) => {
                self.close(out);
                // An error after a cancel is a consequence of the cancel.
                if self.stopping {
                    return ended(Status::Interrupted, "interrupted");
                }
                let around = Around { greeting: &self.context.greeting, doing: "take the message" };
                Ended::failed(around.failure(&error))
            }
        }
    }

    fn completed(&mut self, result: &RawValue, out: &mut Vec<Emitted>) -> Ended {
        let answer: Prompted<'_> = serde_json::from_str(result.get()).unwrap_or_default();
        if let (Some(turn), Some(tokens)) = (&mut self.turn, answer.tokens()) {
            usage::add(&mut turn.usage, tokens);
        }
        self.close(out);
        let reason = answer.stop_reason.as_str().unwrap_or("end_turn");
        match reason {
            "cancelled" if self.stopping => ended(Status::Interrupted, "interrupted"),
            "cancelled" => ended(Status::Interrupted, "the agent cancelled the turn"),
            // The turn was complete before the cancel took effect. Its text stays, but a cancelled
            // turn is always reported as interrupted.
            _ if self.stopping => ended(Status::Interrupted, "interrupted"),
            "refusal" => {
                let agent = self.context.greeting.name();
                let failure = Failure::new(
                    FailureKind::Refused,
                    format!("{agent} refused to continue with this"),
                );
                Ended::failed(failure.with_hint(REPHRASE))
            }
            "max_turn_requests" => ended(Status::Partial, reason),
            _ => ended(Status::Completed, reason),
        }
    }

    /// Ends the turn without an answer: the agent has exited or was given up. `None`: no turn runs.
    pub fn end_of_output(&mut self, out: &mut Vec<Emitted>) -> Option<Ended> {
        let was_stopping = self.stopping;
        self.turn.as_ref()?;
        self.close(out);
        Some(if was_stopping {
            ended(Status::Interrupted, "interrupted")
        } else {
            let agent = self.context.greeting.name();
            let message = format!("{agent} ended in the middle of the turn");
            Ended::failed(Failure::new(FailureKind::Agent, message))
        })
    }

    /// Withdraws the approvals, closes the open block and tool calls, and reports the usage.
    fn close(&mut self, out: &mut Vec<Emitted>) {
        for decided in std::mem::take(&mut self.asked) {
            out.push(Emitted::Withdraw(decided.key()));
        }
        let Some(mut turn) = self.turn.take() else {
            return;
        };
        turn.texts.close(out);
        turn.tools.close(out);
        self.past = turn.tools.names().map(Into::into).collect();
        turn.usage.cost_usd = self.spent.of_turn();
        event(EventKind::Usage(turn.usage), out);
    }
}

fn ended(status: Status, reason: &str) -> Ended {
    Ended { status, text: None, reason: reason.into() }
}
