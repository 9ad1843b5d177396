//! The end of a turn: its single `result` line, and the lines that must precede it.

use std::{io, io::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    output::{WordCount, merge_fields, new_id},
    simulated_failure::SimulatedFailure,
    turn::{ParrotTurn, TurnEnding},
};

/// The time until a simulated rate limit resets.
const RATE_LIMIT_RESET: Duration = Duration::from_mins(1);

const INTERRUPTED_TEXT: &str = "[Request interrupted by user]";
const INTERRUPTED_TOOL_TEXT: &str = "[Request interrupted by user for tool use]";

impl<W: Write> ParrotTurn<'_, W> {
    pub(super) fn finish(mut self, ending: &TurnEnding) -> io::Result<()> {
        let outcome = match ending {
            TurnEnding::Done => json!({"subtype": "success", "is_error": false,
                "terminal_reason": "completed", "stop_reason": "end_turn",
                "result": self.answer, "api_error_status": null}),
            TurnEnding::Failed(failing) => self.write_failure(*failing)?,
            TurnEnding::Interrupted => self.write_interruption()?,
        };
        let model = self.parrot.model.as_str();
        self.parrot.total.add(self.turn_words);
        self.parrot.last_failed = outcome["is_error"] == true;
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut line = json!({"type": "result", "duration_ms": millis, "duration_api_ms": 0,
            "num_turns": self.messages.max(1), "total_cost_usd": 0,
            "usage": self.turn_words.as_usage(),
            "modelUsage": self.parrot.total.by_model(model),
            "model_usage_since_last_result": self.turn_words.by_model(model),
            "permission_denials": self.denials, "result_index": self.parrot.turns - 1});
        merge_fields(&mut line, outcome);
        merge_fields(&mut line, self.message_ids);
        self.parrot.output.write_line(line)
    }

    /// Writes the failure as an `assistant` line in place of the answer, and returns the fields of
    /// the `result` line.
    fn write_failure(&mut self, failing: SimulatedFailure) -> io::Result<Value> {
        if failing == SimulatedFailure::Rate {
            let resets_at =
                jiff::Timestamp::now().as_second() + RATE_LIMIT_RESET.as_secs().cast_signed();
            self.parrot.output.write_line(
                json!({"type": "rate_limit_event", "rate_limit_info": {
                "status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour",
                "isUsingOverage": false}}),
            )?;
        }
        let stop_reason = match failing {
            SimulatedFailure::Refused => "refusal",
            _ => "stop_sequence",
        };
        let mut line = json!({"type": "assistant", "parent_tool_use_id": null,
            "timestamp": jiff::Timestamp::now().to_string(),
            "error": failing.error(), "is_api_error_message": true,
            "api_error_status": failing.status(),
            "message": {"id": new_id(), "type": "message", "role": "assistant",
                "model": "<synthetic>", "stop_reason": stop_reason, "stop_sequence": "",
                "usage": WordCount::default().as_usage(),
                "content": [{"type": "text", "text": failing.text()}]}});
        merge_fields(&mut line, self.message_ids.clone());
        self.parrot.output.write_line(line)?;
        Ok(json!({"subtype": "success", "is_error": true, "terminal_reason": "api_error",
            "stop_reason": stop_reason, "result": failing.text(),
            "api_error_status": failing.status()}))
    }

    /// Closes the open message and tool call, and returns the fields of the `result` line. The
    /// words of an interrupted message are not counted.
    fn write_interruption(&mut self) -> io::Result<Value> {
        let voice = &mut self.parrot.output;
        let (text, reason) = match &self.open_tool {
            Some(_) => (INTERRUPTED_TOOL_TEXT, "aborted_tools"),
            None => (INTERRUPTED_TEXT, "aborted_streaming"),
        };
        if let Some(message) = &self.message {
            message.write_partial_block(voice)?;
        }
        if let Some(id) = self.open_tool.take() {
            self.write_tool_result(&id, "Stopped before it had a result.", false)?;
        }
        let voice = &mut self.parrot.output;
        voice.write_user_line(&json!([{"type": "text", "text": text}]), json!({}))?;
        if let Some(message) = self.message.take() {
            message.abandon(voice)?;
        }
        Ok(json!({"subtype": "error_during_execution", "is_error": true,
            "terminal_reason": reason, "stop_reason": null, "errors": [text]}))
    }
}
