//! The end of a turn: its one `result` line, and the lines that must precede it.

use std::io;

use serde_json::{Value, json};

use super::{
    claude::{EarlyExit, TurnAbort},
    lines::merge_fields,
    tokens::TokenCounts,
    turn::ScriptedTurn,
};

const INTERRUPTED_TEXT: &str = "[Request interrupted by user]";
const INTERRUPTED_TOOL_TEXT: &str = "[Request interrupted by user for tool use]";

/// How a script ended.
#[derive(Debug)]
pub enum TurnEnding {
    Done,
    Failed(ApiFailure),
}

/// A failure of the model's API, as the protocol reports it.
#[derive(Clone, Copy, Debug)]
pub struct ApiFailure {
    /// The machine-readable code.
    pub error: &'static str,
    /// The HTTP status that a real agent would have received.
    pub status: Option<u16>,
    pub text: &'static str,
    pub stop_reason: &'static str,
}

impl ScriptedTurn<'_> {
    pub(super) fn finish(mut self, ending: Result<TurnEnding, TurnAbort>) -> Result<(), EarlyExit> {
        let (outcome, state) = match ending {
            Ok(TurnEnding::Done) => {
                self.end_message("end_turn")?;
                let outcome = json!({"subtype": "success", "is_error": false,
                    "terminal_reason": "completed", "stop_reason": "end_turn",
                    "result": self.answer, "api_error_status": null});
                (outcome, "completed")
            }
            Ok(TurnEnding::Failed(failure)) => {
                self.end_message("end_turn")?;
                (self.write_failure(failure)?, "completed")
            }
            Err(TurnAbort::Interrupted) => (self.write_interruption()?, "cancelled"),
            Err(TurnAbort::Exit(exit)) => return Err(exit),
        };
        self.write_result(outcome)?;
        for message in &self.user_messages {
            self.claude.write_lifecycle(message.uuid.as_deref(), state)?;
        }
        Ok(())
    }

    fn write_result(&mut self, outcome: Value) -> io::Result<()> {
        let claude = &mut *self.claude;
        claude.total.add(self.counts);
        claude.last_failed = outcome["is_error"] == true;
        let setup = &claude.setup;
        let by_model = |counts: TokenCounts| counts.by_model(&setup.model, setup.context_window);
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut line = json!({"type": "result", "duration_ms": millis, "duration_api_ms": 0,
            "num_turns": self.messages.max(1), "total_cost_usd": claude.total.cost(),
            "usage": self.counts.as_usage(), "modelUsage": by_model(claude.total),
            "permission_denials": self.denials, "fast_mode_state": "off"});
        if setup.message_ids {
            line["result_index"] = json!(claude.turns - 1);
            line["queued_turn_count"] = json!(claude.queue.len());
            line["model_usage_since_last_result"] = by_model(self.counts);
        }
        merge_fields(&mut line, outcome);
        merge_fields(&mut line, self.message_ids.clone());
        claude.lines.add(line)
    }

    /// Writes the failure as an `assistant` line in place of the answer. Returns the fields of the
    /// `result` line.
    fn write_failure(&mut self, failure: ApiFailure) -> io::Result<Value> {
        let ApiFailure { error, status, text, stop_reason } = failure;
        let body = json!({"id": self.claude.lines.new_id(), "type": "message",
            "role": "assistant", "model": "<synthetic>", "stop_reason": stop_reason,
            "stop_sequence": "", "usage": TokenCounts::default().as_usage(),
            "content": [{"type": "text", "text": text}]});
        let mut more = json!({"error": error});
        let mut terminal_reason = "completed";
        if self.claude.setup.message_ids {
            more["is_api_error_message"] = json!(true);
            more["api_error_status"] = json!(status);
            terminal_reason = "api_error";
        }
        self.write_assistant_line(&body, more)?;
        Ok(json!({"subtype": "success", "is_error": true, "terminal_reason": terminal_reason,
            "stop_reason": stop_reason, "result": text, "api_error_status": status}))
    }

    /// Closes the open message and tool call. Returns the fields of the `result` line. The tokens
    /// of an interrupted message are not counted.
    fn write_interruption(&mut self) -> io::Result<Value> {
        let (text, reason) = match &self.open_tool {
            Some(_) => (INTERRUPTED_TOOL_TEXT, "aborted_tools"),
            None => (INTERRUPTED_TEXT, "aborted_streaming"),
        };
        let message = self.message.take();
        if let Some(message) = &message {
            self.write_partial_block(message)?;
        }
        if let Some(id) = self.open_tool.take() {
            self.write_tool_result(&id, "Stopped before it had a result.", false)?;
        }
        self.write_user_line(&json!([{"type": "text", "text": text}]), json!({}))?;
        if let Some(message) = &message {
            self.abandon_message(message)?;
        }
        Ok(json!({"subtype": "error_during_execution", "is_error": true,
            "terminal_reason": reason, "stop_reason": null, "errors": [text]}))
    }
}
