//! The bytes of the lines this program prints. Repeated parts are prepared once.

use std::io::Write as _;

use serde_json::{Value, json};

/// A fixed timestamp: no test depends on this value.
const TIME: &str = "2026-01-01T00:00:00.000Z";

/// Collects lines until they are written.
#[derive(Debug)]
pub(crate) struct LineWriter {
    pub(crate) buffer: Vec<u8>,
    session: String,
    /// Numbers the lines; their ids derive from it.
    count: u64,
    message: String,
    is_new: bool,
    /// The bytes after the event in every line of the current message, up to the number in the id.
    event_tail: Vec<u8>,
    event_end: Vec<u8>,
}

impl LineWriter {
    pub(crate) fn new(session: &str, is_new: bool) -> Self {
        Self {
            buffer: Vec::with_capacity(64 * 1024),
            session: session.to_owned(),
            count: 0,
            message: String::new(),
            is_new,
            event_tail: Vec::new(),
            event_end: Vec::new(),
        }
    }

    fn id(&mut self) -> String {
        self.count += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.count)
    }

    /// Adds any line, with its session and id; frequent lines are built without `Value` instead.
    pub(crate) fn line(&mut self, mut line: Value) {
        line["session_id"] = json!(self.session);
        line["uuid"] = json!(self.id());
        self.write_raw(&line);
    }

    /// Adds a line as it is, without adding a session or an id.
    pub(crate) fn write_raw(&mut self, line: &Value) {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.buffer, line);
        self.buffer.push(b'\n');
    }

    pub(crate) fn lifecycle(&mut self, message: Option<&str>, state: &str) {
        if let (Some(message), true) = (message, self.is_new) {
            self.line(json!({"type": "command_lifecycle", "command_uuid": message,
                "state": state}));
        }
    }

    /// Begins a model message; later events and blocks belong to it.
    pub(crate) fn begin(&mut self, call: u64) {
        self.message = format!("msg_fake{call:04}");
        self.event_tail.clear();
        let session = &self.session;
        let _ = write!(
            self.event_tail,
            r#"}},"session_id":"{session}","parent_tool_use_id":null,"uuid":"00000000-0000-4000-8000-"#
        );
        self.event_end.clear();
        let _ = if self.is_new {
            writeln!(self.event_end, r#"","api_message_id":"{}"}}"#, self.message)
        } else {
            writeln!(self.event_end, r#""}}"#)
        };
    }

    /// Adds a stream event from its inner JSON without the closing brace.
    fn event(&mut self, inner: &[&[u8]]) {
        self.buffer.extend_from_slice(br#"{"type":"stream_event","event":"#);
        for part in inner {
            self.buffer.extend_from_slice(part);
        }
        self.buffer.extend_from_slice(&self.event_tail);
        self.count += 1;
        let _ = write!(self.buffer, "{:012x}", self.count);
        self.buffer.extend_from_slice(&self.event_end);
    }

    pub(crate) fn message_start(&mut self, model: &str, message: Option<&str>) {
        let mut line = json!({"type": "stream_event", "event": {"type": "message_start", "message": {
            "id": self.message, "type": "message", "role": "assistant", "model": model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(1, 1)}},
            "parent_tool_use_id": null, "ttft_ms": 1});
        if self.is_new {
            line["api_message_id"] = json!(self.message);
            add_message_id(&mut line, message);
        }
        self.line(line);
    }

    pub(crate) fn block_start(&mut self, index: usize, block: &Value) {
        let inner =
            format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}"#);
        self.event(&[inner.as_bytes()]);
    }

    pub(crate) fn text_delta(&mut self, index: usize, text: &str) {
        let digit = [b'0' + u8::try_from(index % 10).unwrap_or_default()];
        let mut quoted = Vec::with_capacity(text.len() + 2);
        let _ = serde_json::to_writer(&mut quoted, text);
        self.event(&[
            br#"{"type":"content_block_delta","index":"#,
            &digit,
            br#","delta":{"type":"text_delta","text":"#,
            &quoted,
            b"}",
        ]);
    }

    pub(crate) fn delta(&mut self, index: usize, delta: &Value) {
        let inner = format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}"#);
        self.event(&[inner.as_bytes()]);
    }

    pub(crate) fn block_stop(&mut self, index: usize) {
        let inner = format!(r#"{{"type":"content_block_stop","index":{index}"#);
        self.event(&[inner.as_bytes()]);
    }

    pub(crate) fn message_stop(&mut self, reason: Option<&str>, abandoned_from: Option<usize>) {
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        let inner =
            format!(r#"{{"type":"message_delta","delta":{delta},"usage":{{"output_tokens":25}}"#);
        self.event(&[inner.as_bytes()]);
        match abandoned_from {
            Some(index) if self.is_new => {
                let line = json!({"type": "stream_event", "event": {"type": "message_stop"},
                    "parent_tool_use_id": null, "api_message_id": self.message,
                    "abandoned_blocks": {"api_message_id": self.message,
                        "from_block_index": index}});
                self.line(line);
            }
            _ => self.event(&[br#"{"type":"message_stop""#]),
        }
    }

    /// Returns the line with one complete block of the current message.
    pub(crate) fn assistant(&mut self, model: &str, block: &Value, message: Option<&str>) -> Value {
        let mut line = json!({"type": "assistant", "message": {"id": self.message,
            "type": "message", "role": "assistant", "model": model, "content": [block],
            "stop_reason": null, "stop_sequence": null, "usage": usage(1, 1),
            "context_management": null}, "parent_tool_use_id": null, "request_id": "req_fake123"});
        if self.is_new {
            line["timestamp"] = json!(TIME);
            add_message_id(&mut line, message);
        }
        line
    }

    pub(crate) fn user(&mut self, parts: &Value, mut extra: Value) {
        extra["type"] = json!("user");
        extra["message"] = json!({"role": "user", "content": parts});
        extra["parent_tool_use_id"] = Value::Null;
        extra["timestamp"] = json!(TIME);
        self.line(extra);
    }
}

/// Adds the id of the user message that a line belongs to, as newer versions do.
pub(crate) fn add_message_id(line: &mut Value, message: Option<&str>) {
    if let Some(message) = message {
        line["user_message_uuid"] = json!(message);
        line["user_message_uuids"] = json!([message]);
    }
}

/// Returns the usage: the same counts for every model call, so that sums can be checked.
pub(crate) fn usage(calls: u64, output: u64) -> Value {
    json!({"input_tokens": 11 * calls, "cache_creation_input_tokens": 120 * calls,
        "cache_read_input_tokens": 3000 * calls, "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": 20 * calls,
            "ephemeral_1h_input_tokens": 100 * calls},
        "service_tier": "standard"})
}
