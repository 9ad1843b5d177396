//! The parrot's stdout: lines of the stream-json protocol, one JSON object each.

use std::io::{self, Write};

use angelia_wire::limits::MAX_IDLE_BUFFER_BYTES;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The parrot has Angelia's version.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Counts words, in place of the tokens that other agents count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WordCount {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl WordCount {
    pub(super) fn count(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    pub(super) fn add(&mut self, more: Self) {
        self.input += more.input;
        self.output += more.output;
    }

    pub(super) fn as_usage(self) -> Value {
        json!({"input_tokens": self.input, "output_tokens": self.output,
            "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0})
    }

    /// Returns the counts by model. As in Claude Code, the object is empty if nothing was counted.
    pub(super) fn by_model(self, model: &str) -> Value {
        let mut models = Map::new();
        if self != Self::default() {
            let counts = json!({"inputTokens": self.input, "outputTokens": self.output,
                "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0, "costUSD": 0});
            models.insert(model.to_owned(), counts);
        }
        Value::Object(models)
    }
}

/// Writes lines to stdout. Nearly every line carries the session id.
#[derive(Debug)]
pub(super) struct ProtocolWriter<W> {
    out: W,
    line: Vec<u8>,
    session: String,
}

impl<W: Write> ProtocolWriter<W> {
    pub(super) fn new(out: W, session: String) -> Self {
        Self { out, line: Vec::new(), session }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Writes a line of the conversation, with the session id and an id of its own.
    pub(super) fn write_line(&mut self, mut line: Value) -> io::Result<()> {
        line["session_id"] = Value::from(self.session.as_str());
        if line.get("uuid").is_none() {
            line["uuid"] = Value::from(new_id());
        }
        self.write_raw(&line)
    }

    /// Writes a line as it is. Control messages carry neither id.
    pub(super) fn write_raw(&mut self, line: &Value) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.out.flush()?;
        if self.line.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.line = Vec::new();
        }
        Ok(())
    }

    /// Reports the state of one of the sender's messages.
    pub(super) fn write_lifecycle(&mut self, message: Option<&str>, state: &str) -> io::Result<()> {
        match message {
            Some(id) => self.write_line(
                json!({"type": "command_lifecycle", "command_uuid": id, "state": state}),
            ),
            None => Ok(()),
        }
    }

    /// Writes a `user` line, which reports a tool result or an interruption, not a person's
    /// message.
    pub(super) fn write_user_line(&mut self, content: &Value, more: Value) -> io::Result<()> {
        let mut line = json!({"type": "user", "message": {"role": "user", "content": content},
            "parent_tool_use_id": null, "timestamp": jiff::Timestamp::now().to_string()});
        merge_fields(&mut line, more);
        self.write_line(line)
    }

    pub(super) fn respond_success(
        &mut self,
        request: &Value,
        response: Option<Value>,
    ) -> io::Result<()> {
        let mut line = json!({"type": "control_response",
            "response": {"subtype": "success", "request_id": request}});
        if let Some(response) = response {
            line["response"]["response"] = response;
        }
        self.write_raw(&line)
    }

    pub(super) fn respond_error(&mut self, request: &Value, error: &str) -> io::Result<()> {
        self.write_raw(&json!({"type": "control_response",
            "response": {"subtype": "error", "request_id": request, "error": error}}))
    }
}

/// Adds the fields of `more` to `line`.
pub(super) fn merge_fields(line: &mut Value, more: Value) {
    if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
}

pub(super) fn new_id() -> String {
    Uuid::new_v4().to_string()
}
