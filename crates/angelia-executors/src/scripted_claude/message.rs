//! Writes the messages of a turn in the form in which a model's messages arrive: a start, blocks, a
//! stop. Each complete block is repeated on an `assistant` line.

use std::{fmt, io};

use serde_json::{Value, json};

use super::{
    lines::merge_fields,
    tokens::{TokenCounting, TokenCounts, count_words},
    turn::ScriptedTurn,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockChannel {
    Answer,
    Reasoning,
}

/// The message that is being written.
#[derive(Debug)]
pub(super) struct OpenMessage {
    id: String,
    counts: TokenCounts,
    /// The number of blocks that have been started.
    blocks: usize,
    block: Option<OpenBlock>,
    /// The last complete block of the answer.
    answer: Option<String>,
}

#[derive(Debug)]
struct OpenBlock {
    channel: BlockChannel,
    text: String,
}

fn text_block(channel: BlockChannel, text: &str) -> Value {
    match channel {
        BlockChannel::Answer => json!({"type": "text", "text": text}),
        BlockChannel::Reasoning => json!({"type": "thinking", "thinking": text, "signature": ""}),
    }
}

impl ScriptedTurn<'_> {
    /// Writes a piece of text. It continues the open block if that block has the same channel.
    pub fn write_text(&mut self, channel: BlockChannel, text: &str) -> io::Result<()> {
        let mut message = self.take_message()?;
        if message.block.as_ref().is_none_or(|block| block.channel != channel) {
            self.end_block(&mut message)?;
            self.start_block(&mut message, &text_block(channel, ""))?;
        }
        let block = message.block.get_or_insert(OpenBlock { channel, text: String::new() });
        block.text.push_str(text);
        if matches!(self.claude.setup.counting, TokenCounting::Words) {
            message.counts.output += count_words(text);
        }
        match channel {
            BlockChannel::Answer if self.claude.setup.partial_messages => {
                self.claude.lines.add_text_delta(message.blocks - 1, text)?;
            }
            BlockChannel::Answer => {}
            BlockChannel::Reasoning => {
                self.write_delta(&message, &json!({"type": "thinking_delta", "thinking": text}))?;
            }
        }
        self.message = Some(message);
        Ok(())
    }

    /// Reports whether an answer block with text is open, so that more text needs a new paragraph.
    pub fn is_answering(&self) -> bool {
        let block = self.message.as_ref().and_then(|message| message.block.as_ref());
        block.is_some_and(|block| block.channel == BlockChannel::Answer && !block.text.is_empty())
    }

    /// Writes a tool call as the last block of the open message, and ends that message. Returns the
    /// id of the call.
    pub fn write_tool_call(&mut self, name: &str, input: &Value) -> io::Result<String> {
        let id = format!("toolu_{}", self.claude.lines.new_id());
        let mut block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let mut message = self.take_message()?;
        self.end_block(&mut message)?;
        self.start_block(&mut message, &block)?;
        let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        self.write_delta(&message, &delta)?;
        block["input"] = input.clone();
        self.write_assistant(&message, &block, json!({}))?;
        self.stop_block(&message)?;
        self.message = Some(message);
        self.end_message("tool_use")?;
        self.open_tool = Some(id.clone());
        Ok(id)
    }

    /// Ends the open message, if there is one.
    pub fn end_message(&mut self, stop_reason: &str) -> io::Result<()> {
        if let Some(mut message) = self.message.take() {
            self.end_block(&mut message)?;
            self.write_message_delta(&message, Some(stop_reason))?;
            self.write_event(format_args!(r#"{{"type":"message_stop"}}"#))?;
            self.counts.add(message.counts);
            self.answer = message.answer.unwrap_or_default();
        }
        Ok(())
    }

    /// Writes an interrupted block's text so far. Call it before reporting the interruption.
    pub(super) fn write_partial_block(&mut self, message: &OpenMessage) -> io::Result<()> {
        let Some(block) = &message.block else {
            return Ok(());
        };
        let aborted =
            if self.claude.setup.message_ids { json!({"aborted": true}) } else { json!({}) };
        self.write_assistant(message, &text_block(block.channel, &block.text), aborted)
    }

    /// Ends an interrupted message and reports its remaining blocks as abandoned. Versions without
    /// message ids write nothing.
    pub(super) fn abandon_message(&mut self, message: &OpenMessage) -> io::Result<()> {
        if !self.claude.setup.message_ids {
            return Ok(());
        }
        if message.block.is_some() {
            self.stop_block(message)?;
        }
        let abandoned = json!({"api_message_id": message.id, "from_block_index": message.blocks});
        self.write_message_delta(message, None)?;
        let event = json!({"type": "message_stop"});
        self.write_full_event(message, &event, json!({"abandoned_blocks": abandoned}))
    }

    /// Takes the open message, or starts a new one.
    fn take_message(&mut self) -> io::Result<OpenMessage> {
        if let Some(message) = self.message.take() {
            return Ok(message);
        }
        self.write_requesting()?;
        self.requesting = false;
        self.messages += 1;
        let input = std::mem::take(&mut self.input_words);
        let counts = match self.claude.setup.counting {
            TokenCounting::Words => TokenCounts { input, ..TokenCounts::default() },
            TokenCounting::PerMessage(counts) => counts,
        };
        let id = format!("msg_{}", self.claude.lines.new_id());
        let message = OpenMessage { id, counts, blocks: 0, block: None, answer: None };
        let ids = self.claude.setup.message_ids;
        self.claude.lines.begin_message(ids.then_some(message.id.as_str()));
        let event =
            json!({"type": "message_start", "message": self.message_body(&message, &json!([]))});
        self.write_full_event(&message, &event, self.message_ids.clone())?;
        Ok(message)
    }

    /// Writes the status `requesting`, once per message. A real agent would now wait for its model.
    pub(super) fn write_requesting(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.requesting, true) || !self.claude.setup.partial_messages {
            return Ok(());
        }
        let mut line = json!({"type": "system", "subtype": "status", "status": "requesting"});
        self.add_message_uuids(&mut line);
        self.claude.lines.add(line)
    }

    fn start_block(&mut self, message: &mut OpenMessage, block: &Value) -> io::Result<()> {
        let index = message.blocks;
        message.blocks += 1;
        self.write_event(format_args!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
        ))
    }

    fn write_delta(&mut self, message: &OpenMessage, delta: &Value) -> io::Result<()> {
        let index = message.blocks - 1;
        self.write_event(format_args!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#
        ))
    }

    fn end_block(&mut self, message: &mut OpenMessage) -> io::Result<()> {
        let Some(block) = message.block.take() else {
            return Ok(());
        };
        self.write_assistant(message, &text_block(block.channel, &block.text), json!({}))?;
        if block.channel == BlockChannel::Answer {
            message.answer = Some(block.text);
        }
        self.stop_block(message)
    }

    fn stop_block(&mut self, message: &OpenMessage) -> io::Result<()> {
        let index = message.blocks - 1;
        self.write_event(format_args!(r#"{{"type":"content_block_stop","index":{index}}}"#))
    }

    /// Writes the message's token counts and its stop reason.
    fn write_message_delta(
        &mut self,
        message: &OpenMessage,
        reason: Option<&str>,
    ) -> io::Result<()> {
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        let output = message.counts.output;
        self.write_event(format_args!(
            r#"{{"type":"message_delta","usage":{{"output_tokens":{output}}},"delta":{delta}}}"#
        ))
    }

    fn write_event(&mut self, event: fmt::Arguments<'_>) -> io::Result<()> {
        if self.claude.setup.partial_messages { self.claude.lines.add_event(event) } else { Ok(()) }
    }

    /// Writes a stream event with extra fields next to the event.
    fn write_full_event(
        &mut self,
        message: &OpenMessage,
        event: &Value,
        more: Value,
    ) -> io::Result<()> {
        if !self.claude.setup.partial_messages {
            return Ok(());
        }
        let mut line = json!({"type": "stream_event", "event": event, "parent_tool_use_id": null});
        if self.claude.setup.message_ids {
            line["api_message_id"] = json!(message.id);
        }
        merge_fields(&mut line, more);
        self.claude.lines.add(line)
    }

    fn write_assistant(
        &mut self,
        message: &OpenMessage,
        block: &Value,
        more: Value,
    ) -> io::Result<()> {
        let body = self.message_body(message, &json!([block]));
        self.write_assistant_line(&body, more)
    }

    pub(super) fn write_assistant_line(&mut self, body: &Value, more: Value) -> io::Result<()> {
        let mut line = json!({"type": "assistant", "message": body, "parent_tool_use_id": null});
        if self.claude.setup.message_ids {
            line["timestamp"] = json!(self.timestamp);
        }
        merge_fields(&mut line, self.message_ids.clone());
        merge_fields(&mut line, more);
        self.claude.lines.add(line)
    }

    fn message_body(&self, message: &OpenMessage, content: &Value) -> Value {
        let output = match self.claude.setup.counting {
            TokenCounting::Words => 0,
            TokenCounting::PerMessage(_) => 1,
        };
        json!({"id": message.id, "type": "message", "role": "assistant",
            "model": self.claude.setup.model, "content": content, "stop_reason": null,
            "stop_sequence": null, "usage": TokenCounts { output, ..message.counts }.as_usage()})
    }
}
