//! The end of a turn: its single `result` line, and the lines that must precede it.

use std::{io, io::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    failing::Failing,
    speech::{Words, extend, new_id},
    turn::{Ending, Turn},
};

/// The time until a simulated rate limit resets.
const LIMIT: Duration = Duration::from_mins(1);

const STOPPED: &str = "[Request interrupted by user]";
const STOPPED_TOOL: &str = "[Request interrupted by user for tool use]";

impl<W: Write> Turn<'_, W> {
    pub(super) fn finish(mut self, ending: &Ending) -> io::Result<()> {
        let outcome = match ending {
            Ending::Done => json!({"subtype": "success", "is_error": false,
                "terminal_reason": "completed", "stop_reason": "end_turn",
                "result": self.answer, "api_error_status": null}),
            Ending::Failed(failing) => self.failed(*failing)?,
            Ending::Interrupted => self.interrupted()?,
        };
        let model = self.parrot.model.as_str();
        self.parrot.total.add(self.spent);
        self.parrot.last_failed = outcome["is_error"] == true;
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut line = json!({"type": "result", "duration_ms": millis, "duration_api_ms": 0,
            "num_turns": self.messages.max(1), "total_cost_usd": 0,
            "usage": self.spent.as_usage(),
            "modelUsage": self.parrot.total.by_model(model),
            "model_usage_since_last_result": self.spent.by_model(model),
            "permission_denials": self.denials, "result_index": self.parrot.turns - 1});
        extend(&mut line, outcome);
        extend(&mut line, self.marks);
        self.parrot.voice.say(line)
    }

    /// Writes the failure as an `assistant` line in place of the answer, and returns the fields of
    /// the `result` line.
    fn failed(&mut self, failing: Failing) -> io::Result<Value> {
        if failing == Failing::Rate {
            let resets_at = jiff::Timestamp::now().as_second() + LIMIT.as_secs().cast_signed();
            self.parrot.voice.say(json!({"type": "rate_limit_event", "rate_limit_info": {
                "status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour",
                "isUsingOverage": false}}))?;
        }
        let stop_reason = match failing {
            Failing::Refused => "refusal",
            _ => "stop_sequence",
        };
        let mut line = json!({"type": "assistant", "parent_tool_use_id": null,
            "timestamp": jiff::Timestamp::now().to_string(),
            "error": failing.error(), "is_api_error_message": true,
            "api_error_status": failing.status(),
            "message": {"id": new_id(), "type": "message", "role": "assistant",
                "model": "<synthetic>", "stop_reason": stop_reason, "stop_sequence": "",
                "usage": Words::default().as_usage(),
                "content": [{"type": "text", "text": failing.text()}]}});
        extend(&mut line, self.marks.clone());
        self.parrot.voice.say(line)?;
        Ok(json!({"subtype": "success", "is_error": true, "terminal_reason": "api_error",
            "stop_reason": stop_reason, "result": failing.text(),
            "api_error_status": failing.status()}))
    }

    /// Closes the open message and tool call, and returns the fields of the `result` line. The
    /// words of an interrupted message are not counted.
    fn interrupted(&mut self) -> io::Result<Value> {
        let voice = &mut self.parrot.voice;
        let (text, reason) = match &self.tool {
            Some(_) => (STOPPED_TOOL, "aborted_tools"),
            None => (STOPPED, "aborted_streaming"),
        };
        if let Some(message) = &self.message {
            message.break_off(voice)?;
        }
        if let Some(id) = self.tool.take() {
            self.result(&id, "Stopped before it had a result.", false)?;
        }
        let voice = &mut self.parrot.voice;
        voice.told(&json!([{"type": "text", "text": text}]), json!({}))?;
        if let Some(message) = self.message.take() {
            message.abandon(voice)?;
        }
        Ok(json!({"subtype": "error_during_execution", "is_error": true,
            "terminal_reason": reason, "stop_reason": null, "errors": [text]}))
    }
}
