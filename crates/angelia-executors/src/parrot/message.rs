//! Writes one assistant message the way a model's message arrives: a start, blocks, a stop. Each
//! complete block is repeated on an `assistant` line.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::output::{ProtocolWriter, WordCount, merge_fields, new_id};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockChannel {
    Answer,
    Reasoning,
}

#[derive(Debug)]
pub(super) struct MessageWriter {
    id: String,
    model: String,
    /// The ids of the messages that are being answered.
    message_ids: Value,
    words: WordCount,
    /// The number of blocks that have been started.
    blocks: u32,
    open: Option<StreamedBlock>,
    /// The last complete block of the answer.
    answer: Option<String>,
}

/// The result of a complete message.
#[derive(Debug)]
pub(super) struct MessageSummary {
    pub(super) words: WordCount,
    pub(super) answer: Option<String>,
}

#[derive(Debug)]
struct StreamedBlock {
    channel: BlockChannel,
    text: String,
}

impl StreamedBlock {
    fn empty(channel: BlockChannel) -> Value {
        match channel {
            BlockChannel::Answer => json!({"type": "text", "text": ""}),
            BlockChannel::Reasoning => json!({"type": "thinking", "thinking": "", "signature": ""}),
        }
    }

    fn whole(&self) -> Value {
        match self.channel {
            BlockChannel::Answer => json!({"type": "text", "text": self.text}),
            BlockChannel::Reasoning => {
                json!({"type": "thinking", "thinking": self.text, "signature": ""})
            }
        }
    }
}

impl MessageWriter {
    pub(super) fn start<W: Write>(
        voice: &mut ProtocolWriter<W>,
        model: &str,
        heard: u64,
        marks: &Value,
    ) -> io::Result<Self> {
        let message = Self {
            id: format!("msg_{}", new_id()),
            model: model.to_owned(),
            message_ids: marks.clone(),
            words: WordCount { input: heard, output: 0 },
            blocks: 0,
            open: None,
            answer: None,
        };
        let event = json!({"type": "message_start", "message": message.body(&json!([]))});
        message.event(voice, &event, marks.clone())?;
        Ok(message)
    }

    /// Writes a chunk of text. It continues the open block if that has the same kind.
    pub(super) fn write_chunk<W: Write>(
        &mut self,
        voice: &mut ProtocolWriter<W>,
        channel: BlockChannel,
        piece: &str,
    ) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|open| open.channel != channel) {
            self.end_block(voice)?;
            self.start_block(voice, &StreamedBlock::empty(channel))?;
            let text = String::new();
            self.open = Some(StreamedBlock { channel, text });
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(piece);
        }
        self.words.output += WordCount::count(piece);
        let delta = match channel {
            BlockChannel::Answer => json!({"type": "text_delta", "text": piece}),
            BlockChannel::Reasoning => json!({"type": "thinking_delta", "thinking": piece}),
        };
        self.delta(voice, &delta)
    }

    /// Returns whether a block of the answer is open, so that more text needs a new paragraph.
    pub(super) fn is_answering(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.channel == BlockChannel::Answer && !open.text.is_empty())
    }

    pub(super) fn write_tool_call<W: Write>(
        &mut self,
        voice: &mut ProtocolWriter<W>,
        id: &str,
        name: &str,
        input: &Value,
    ) -> io::Result<()> {
        self.end_block(voice)?;
        self.start_block(voice, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}))?;
        self.delta(voice, &json!({"type": "input_json_delta", "partial_json": input.to_string()}))?;
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        self.assistant(voice, &block, json!({}))?;
        self.stop_block(voice)
    }

    fn end_block<W: Write>(&mut self, voice: &mut ProtocolWriter<W>) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.assistant(voice, &open.whole(), json!({}))?;
        if open.channel == BlockChannel::Answer {
            self.answer = Some(open.text);
        }
        self.stop_block(voice)
    }

    /// Ends the message with a stop reason.
    pub(super) fn end<W: Write>(
        mut self,
        voice: &mut ProtocolWriter<W>,
        stop_reason: &str,
    ) -> io::Result<MessageSummary> {
        self.end_block(voice)?;
        self.stop(voice, Some(stop_reason), json!({}))?;
        Ok(MessageSummary { words: self.words, answer: self.answer })
    }

    /// Writes the text so far of an interrupted block. Must come before the interruption is
    /// reported.
    pub(super) fn write_partial_block<W: Write>(
        &self,
        voice: &mut ProtocolWriter<W>,
    ) -> io::Result<()> {
        match &self.open {
            Some(open) => self.assistant(voice, &open.whole(), json!({"aborted": true})),
            None => Ok(()),
        }
    }

    /// Ends an interrupted message and reports its remaining blocks as abandoned.
    pub(super) fn abandon<W: Write>(mut self, voice: &mut ProtocolWriter<W>) -> io::Result<()> {
        if self.open.take().is_some() {
            self.stop_block(voice)?;
        }
        let abandoned = json!({"api_message_id": self.id, "from_block_index": self.blocks});
        self.stop(voice, None, json!({"abandoned_blocks": abandoned}))
    }

    fn start_block<W: Write>(
        &mut self,
        voice: &mut ProtocolWriter<W>,
        block: &Value,
    ) -> io::Result<()> {
        let event =
            json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        self.blocks += 1;
        self.event(voice, &event, json!({}))
    }

    fn delta<W: Write>(&self, voice: &mut ProtocolWriter<W>, delta: &Value) -> io::Result<()> {
        let event = json!({"type": "content_block_delta", "index": self.newest(), "delta": delta});
        self.event(voice, &event, json!({}))
    }

    fn stop_block<W: Write>(&self, voice: &mut ProtocolWriter<W>) -> io::Result<()> {
        let event = json!({"type": "content_block_stop", "index": self.newest()});
        self.event(voice, &event, json!({}))
    }

    fn stop<W: Write>(
        &self,
        voice: &mut ProtocolWriter<W>,
        reason: Option<&str>,
        more: Value,
    ) -> io::Result<()> {
        let event = json!({"type": "message_delta", "usage": {"output_tokens": self.words.output},
            "delta": {"stop_reason": reason, "stop_sequence": null}});
        self.event(voice, &event, json!({}))?;
        self.event(voice, &json!({"type": "message_stop"}), more)
    }

    fn newest(&self) -> u32 {
        self.blocks.saturating_sub(1)
    }

    fn event<W: Write>(
        &self,
        voice: &mut ProtocolWriter<W>,
        event: &Value,
        more: Value,
    ) -> io::Result<()> {
        let mut line = json!({"type": "stream_event", "event": event,
            "parent_tool_use_id": null, "api_message_id": self.id});
        merge_fields(&mut line, more);
        voice.write_line(line)
    }

    fn assistant<W: Write>(
        &self,
        voice: &mut ProtocolWriter<W>,
        block: &Value,
        more: Value,
    ) -> io::Result<()> {
        let mut line = json!({"type": "assistant", "message": self.body(&json!([block])),
            "parent_tool_use_id": null, "timestamp": jiff::Timestamp::now().to_string()});
        merge_fields(&mut line, self.message_ids.clone());
        merge_fields(&mut line, more);
        voice.write_line(line)
    }

    fn body(&self, content: &Value) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": null, "stop_sequence": null,
            "usage": WordCount { input: self.words.input, output: 0 }.as_usage()})
    }
}
