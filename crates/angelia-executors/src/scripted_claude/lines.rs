//! Builds the lines of stdout, one JSON object each. The parts common to all stream events are
//! prepared once per message.

use std::{
    fmt,
    fs::File,
    io::{self, Write as _},
};

use angelia_wire::limits::{MAX_IDLE_BUFFER_BYTES, READ_BYTES};
use serde_json::Value;
use uuid::Uuid;

/// The characters of a UUID before its last group.
const ID_PREFIX_CHARS: usize = 24;

/// Buffers lines until they are written.
#[derive(Debug)]
pub(super) struct LineWriter {
    output: File,
    buffer: Vec<u8>,
    session: String,
    /// The ids of this process, up to their last group, which is a number.
    id_prefix: String,
    last_id: u64,
    /// The bytes that follow the event in every stream event of the message, up to the number in
    /// its id.
    event_tail: Vec<u8>,
    /// The bytes after that number.
    event_end: Vec<u8>,
}

impl LineWriter {
    pub(super) fn new(output: File, session: String) -> Self {
        let mut id_prefix = Uuid::new_v4().to_string();
        id_prefix.truncate(ID_PREFIX_CHARS);
        Self {
            output,
            buffer: Vec::with_capacity(READ_BYTES),
            session,
            id_prefix,
            last_id: 0,
            event_tail: Vec::new(),
            event_end: Vec::new(),
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    pub(super) fn new_id(&mut self) -> String {
        self.last_id += 1;
        format!("{}{:012x}", self.id_prefix, self.last_id)
    }

    /// Adds a line of the conversation, with the session id and an id of its own.
    pub(super) fn add(&mut self, mut line: Value) -> io::Result<()> {
        line["session_id"] = Value::from(self.session.as_str());
        line["uuid"] = Value::from(self.new_id());
        self.add_raw(&line)
    }

    /// Adds a line unchanged. Control messages carry neither id.
    pub(super) fn add_raw(&mut self, line: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.buffer, line)?;
        self.buffer.push(b'\n');
        self.write_when_full()
    }

    /// Adds bytes without a newline.
    pub(super) fn add_partial(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Prepares the stream events of a message.
    pub(super) fn begin_message(&mut self, api_message_id: Option<&str>) {
        let (session, prefix) = (&self.session, &self.id_prefix);
        self.event_tail = format!(
            r#","session_id":{},"parent_tool_use_id":null,"uuid":"{prefix}"#,
            Value::from(session.as_str())
        )
        .into_bytes();
        self.event_end = match api_message_id {
            Some(id) => format!("\",\"api_message_id\":\"{id}\"}}\n"),
            None => "\"}\n".to_owned(),
        }
        .into_bytes();
    }

    /// Adds a stream event of the message. The JSON is formatted directly into the buffer, because
    /// most lines are stream events.
    pub(super) fn add_event(&mut self, event: fmt::Arguments<'_>) -> io::Result<()> {
        self.start_event();
        self.buffer.write_fmt(event)?;
        self.end_event()
    }

    /// Adds a piece of text. Nearly all stream events are such pieces.
    pub(super) fn add_text_delta(&mut self, index: usize, text: &str) -> io::Result<()> {
        self.start_event();
        write!(
            self.buffer,
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"#
        )?;
        serde_json::to_writer(&mut self.buffer, text)?;
        self.buffer.extend_from_slice(b"}}");
        self.end_event()
    }

    fn start_event(&mut self) {
        self.buffer.extend_from_slice(br#"{"type":"stream_event","event":"#);
    }

    fn end_event(&mut self) -> io::Result<()> {
        self.buffer.extend_from_slice(&self.event_tail);
        self.last_id += 1;
        write!(self.buffer, "{:012x}", self.last_id)?;
        self.buffer.extend_from_slice(&self.event_end);
        self.write_when_full()
    }

    fn write_when_full(&mut self) -> io::Result<()> {
        if self.buffer.len() >= READ_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes all collected lines at once.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.buffer)?;
        self.buffer.clear();
        if self.buffer.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        Ok(())
    }
}

/// Adds the fields of `more` to `line`.
pub(super) fn merge_fields(line: &mut Value, more: Value) {
    if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
}
