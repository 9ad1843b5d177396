//! Writes one assistant message the way a model's message arrives: a start, blocks, a stop. Each
//! complete block is repeated on an `assistant` line.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::speech::{Voice, Words, extend, new_id};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Answer,
    Reasoning,
}

#[derive(Debug)]
pub(super) struct Message {
    id: String,
    model: String,
    /// The ids of the messages that are being answered.
    marks: Value,
    words: Words,
    /// The number of blocks that have been started.
    blocks: u32,
    open: Option<Block>,
    /// The last complete block of the answer.
    answer: Option<String>,
}

/// The result of a complete message.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) words: Words,
    pub(super) answer: Option<String>,
}

#[derive(Debug)]
struct Block {
    channel: Channel,
    text: String,
}

impl Block {
    fn empty(channel: Channel) -> Value {
        match channel {
            Channel::Answer => json!({"type": "text", "text": ""}),
            Channel::Reasoning => json!({"type": "thinking", "thinking": "", "signature": ""}),
        }
    }

    fn whole(&self) -> Value {
        match self.channel {
            Channel::Answer => json!({"type": "text", "text": self.text}),
            Channel::Reasoning => {
                json!({"type": "thinking", "thinking": self.text, "signature": ""})
            }
        }
    }
}

impl Message {
    pub(super) fn start<W: Write>(
        voice: &mut Voice<W>,
        model: &str,
        heard: u64,
        marks: &Value,
    ) -> io::Result<Self> {
        let message = Self {
            id: format!("msg_{}", new_id()),
            model: model.to_owned(),
            marks: marks.clone(),
            words: Words { heard, said: 0 },
            blocks: 0,
            open: None,
            answer: None,
        };
        let event = json!({"type": "message_start", "message": message.body(&json!([]))});
        message.event(voice, &event, marks.clone())?;
        Ok(message)
    }

    /// Writes a chunk of text. It continues the open block if that has the same kind.
    pub(super) fn speak<W: Write>(
        &mut self,
        voice: &mut Voice<W>,
        channel: Channel,
        piece: &str,
    ) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|open| open.channel != channel) {
            self.end_block(voice)?;
            self.start_block(voice, &Block::empty(channel))?;
            let text = String::new();
            self.open = Some(Block { channel, text });
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(piece);
        }
        self.words.said += Words::count(piece);
        let delta = match channel {
            Channel::Answer => json!({"type": "text_delta", "text": piece}),
            Channel::Reasoning => json!({"type": "thinking_delta", "thinking": piece}),
        };
        self.delta(voice, &delta)
    }

    /// Returns whether a block of the answer is open, so that more text needs a new paragraph.
    pub(super) fn is_answering(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.channel == Channel::Answer && !open.text.is_empty())
    }

    pub(super) fn use_tool<W: Write>(
        &mut self,
        voice: &mut Voice<W>,
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

    fn end_block<W: Write>(&mut self, voice: &mut Voice<W>) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.assistant(voice, &open.whole(), json!({}))?;
        if open.channel == Channel::Answer {
            self.answer = Some(open.text);
        }
        self.stop_block(voice)
    }

    /// Ends the message with a stop reason.
    pub(super) fn end<W: Write>(
        mut self,
        voice: &mut Voice<W>,
        stop_reason: &str,
    ) -> io::Result<Said> {
        self.end_block(voice)?;
        self.stop(voice, Some(stop_reason), json!({}))?;
        Ok(Said { words: self.words, answer: self.answer })
    }

    /// Writes the text so far of an interrupted block. Must come before the interruption is
    /// reported.
    pub(super) fn break_off<W: Write>(&self, voice: &mut Voice<W>) -> io::Result<()> {
        match &self.open {
            Some(open) => self.assistant(voice, &open.whole(), json!({"aborted": true})),
            None => Ok(()),
        }
    }

    /// Ends an interrupted message and reports its remaining blocks as abandoned.
    pub(super) fn abandon<W: Write>(mut self, voice: &mut Voice<W>) -> io::Result<()> {
        if self.open.take().is_some() {
            self.stop_block(voice)?;
        }
        let abandoned = json!({"api_message_id": self.id, "from_block_index": self.blocks});
        self.stop(voice, None, json!({"abandoned_blocks": abandoned}))
    }

    fn start_block<W: Write>(&mut self, voice: &mut Voice<W>, block: &Value) -> io::Result<()> {
        let event =
            json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        self.blocks += 1;
        self.event(voice, &event, json!({}))
    }

    fn delta<W: Write>(&self, voice: &mut Voice<W>, delta: &Value) -> io::Result<()> {
        let event = json!({"type": "content_block_delta", "index": self.newest(), "delta": delta});
        self.event(voice, &event, json!({}))
    }

    fn stop_block<W: Write>(&self, voice: &mut Voice<W>) -> io::Result<()> {
        let event = json!({"type": "content_block_stop", "index": self.newest()});
        self.event(voice, &event, json!({}))
    }

    fn stop<W: Write>(
        &self,
        voice: &mut Voice<W>,
        reason: Option<&str>,
        more: Value,
    ) -> io::Result<()> {
        let event = json!({"type": "message_delta", "usage": {"output_tokens": self.words.said},
            "delta": {"stop_reason": reason, "stop_sequence": null}});
        self.event(voice, &event, json!({}))?;
        self.event(voice, &json!({"type": "message_stop"}), more)
    }

    fn newest(&self) -> u32 {
        self.blocks.saturating_sub(1)
    }

    fn event<W: Write>(&self, voice: &mut Voice<W>, event: &Value, more: Value) -> io::Result<()> {
        let mut line = json!({"type": "stream_event", "event": event,
            "parent_tool_use_id": null, "api_message_id": self.id});
        extend(&mut line, more);
        voice.say(line)
    }

    fn assistant<W: Write>(
        &self,
        voice: &mut Voice<W>,
        block: &Value,
        more: Value,
    ) -> io::Result<()> {
        let mut line = json!({"type": "assistant", "message": self.body(&json!([block])),
            "parent_tool_use_id": null, "timestamp": jiff::Timestamp::now().to_string()});
        extend(&mut line, self.marks.clone());
        extend(&mut line, more);
        voice.say(line)
    }

    fn body(&self, content: &Value) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": null, "stop_sequence": null,
            "usage": Words { heard: self.words.heard, said: 0 }.as_usage()})
    }
}
