//! One turn: its state, its start, and what a script can do besides writing messages.

use std::{
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    claude::{ScriptedClaude, TurnAbort},
    lines::merge_fields,
    message::OpenMessage,
    stdin::UserMessage,
    tokens::{TokenCounts, count_words},
};

#[derive(Debug)]
pub struct ScriptedTurn<'c> {
    pub(super) claude: &'c mut ScriptedClaude,
    pub(super) user_messages: Vec<UserMessage>,
    /// The ids of the user's messages, as fields for the lines that refer to them.
    pub(super) message_ids: Value,
    pub(super) began: Instant,
    /// The start time of the turn, which all its lines carry.
    pub(super) timestamp: String,
    /// Words of input since the last message: those of the prompt, or of a tool result.
    pub(super) input_words: u64,
    pub(super) counts: TokenCounts,
    pub(super) message: Option<OpenMessage>,
    pub(super) messages: u32,
    /// The id of a tool call that has no result yet.
    pub(super) open_tool: Option<String>,
    pub(super) denials: Vec<Value>,
    /// The text of the last message's answer.
    pub(super) answer: String,
    /// Whether the status `requesting` was already written for the next message.
    pub(super) requesting: bool,
}

/// The answer to a control request.
#[derive(Debug)]
pub enum ControlReply {
    Received(Value),
    /// Stdin ended before an answer arrived.
    InputClosed,
}

impl<'c> ScriptedTurn<'c> {
    pub(super) fn begin(
        claude: &'c mut ScriptedClaude,
        user_messages: Vec<UserMessage>,
    ) -> io::Result<Self> {
        let uuids: Vec<&str> = user_messages.iter().filter_map(|m| m.uuid.as_deref()).collect();
        for uuid in &uuids {
            claude.write_lifecycle(Some(uuid), "started")?;
        }
        let message_ids = match uuids.last() {
            Some(last) if claude.setup.message_ids => {
                json!({"user_message_uuid": last, "user_message_uuids": uuids})
            }
            _ => json!({}),
        };
        claude.turns += 1;
        let mut turn = Self {
            claude,
            message_ids,
            began: Instant::now(),
            timestamp: jiff::Timestamp::now().to_string(),
            input_words: 0,
            counts: TokenCounts::default(),
            message: None,
            messages: 0,
            open_tool: None,
            denials: Vec::new(),
            answer: String::new(),
            requesting: false,
            user_messages,
        };
        turn.input_words = count_words(&turn.prompt());
        turn.write_init()?;
        Ok(turn)
    }

    fn write_init(&mut self) -> io::Result<()> {
        let setup = &self.claude.setup;
        let mut line = setup.init_fields.clone();
        line["model"] = json!(setup.model);
        line["permissionMode"] = json!(setup.permission_mode);
        self.add_message_uuids(&mut line);
        self.claude.lines.add(line)
    }

    pub(super) fn add_message_uuids(&self, line: &mut Value) {
        if let Some(uuids) = self.message_ids.get("user_message_uuids") {
            line["user_message_uuids"] = uuids.clone();
        }
    }

    /// Returns the messages that this turn answers.
    pub fn user_messages(&self) -> &[UserMessage] {
        &self.user_messages
    }

    /// Returns the text of all messages that this turn answers.
    pub fn prompt(&self) -> String {
        self.user_messages.iter().map(UserMessage::text).collect::<Vec<_>>().join("\n")
    }

    pub fn session(&self) -> &str {
        self.claude.lines.session()
    }

    pub fn model(&self) -> &str {
        &self.claude.setup.model
    }

    /// Returns the number of this turn within the process, counted from 1.
    pub fn number(&self) -> u32 {
        self.claude.turns
    }

    /// Writes a line with the session id and an id of its own.
    pub fn write_line(&mut self, line: Value) -> io::Result<()> {
        self.claude.lines.add(line)
    }

    /// Writes a line unchanged.
    pub fn write_raw_line(&mut self, line: &Value) -> io::Result<()> {
        self.claude.lines.add_raw(line)
    }

    /// Writes the beginning of a line at once, for a script that dies in the middle of a line.
    pub fn write_broken_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.claude.lines.add_partial(line);
        self.claude.lines.flush()
    }

    /// Writes a `user` line. It reports a tool result or an interruption, not a person's message.
    pub(super) fn write_user_line(&mut self, content: &Value, more: Value) -> io::Result<()> {
        let mut line = json!({"type": "user", "message": {"role": "user", "content": content},
            "parent_tool_use_id": null, "timestamp": self.timestamp});
        merge_fields(&mut line, more);
        self.claude.lines.add(line)
    }

    pub fn write_tool_result(&mut self, id: &str, text: &str, ok: bool) -> io::Result<()> {
        self.open_tool = None;
        self.input_words += count_words(text);
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": text,
            "is_error": !ok}]);
        self.write_user_line(&content, json!({"tool_use_result": text}))
    }

    /// Handles input for `duration`. If that is zero, handles only input that has already arrived.
    pub fn handle_input_for(&mut self, duration: Duration) -> Result<(), TurnAbort> {
        self.claude.handle_input_for(duration)
    }

    /// Stays silent until the turn is interrupted.
    pub fn hang(&mut self) -> Result<(), TurnAbort> {
        if self.message.is_none() {
            self.write_requesting()?;
        }
        self.claude.hang()
    }

    /// Sends a control request, and handles input until the answer arrives.
    pub fn send_request(&mut self, request: &Value) -> Result<ControlReply, TurnAbort> {
        let claude = &mut *self.claude;
        let id = claude.lines.new_id();
        claude
            .lines
            .add_raw(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        claude.pending_request = Some(id);
        loop {
            if !claude.handle_next()? {
                claude.pending_request = None;
                return Ok(ControlReply::InputClosed);
            }
            if let Some(response) = claude.pending_response.take() {
                return Ok(ControlReply::Received(response));
            }
        }
    }
}
