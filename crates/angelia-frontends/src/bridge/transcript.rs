//! The transcript of a run as a list of messages: the `messages` of `final`.

use std::sync::Arc;

use angelia_core::model::{ToolCall, ToolId, ToolResult};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeSeq as _},
};

#[derive(Debug, Default)]
pub(super) struct RunTranscript {
    parts: Vec<TranscriptPart>,
    api_calls: u32,
    /// Whether the model has produced output since its last input (the prompt or a tool result).
    has_output: bool,
}

#[derive(Debug)]
enum TranscriptPart {
    Prompt(Arc<str>),
    /// An assistant message and its index.
    Text(u32, Arc<str>),
    Call(ToolCall),
    Result(ToolResult),
}

impl RunTranscript {
    pub(super) fn add_prompt(&mut self, text: &Arc<str>) {
        self.parts.push(TranscriptPart::Prompt(Arc::clone(text)));
    }

    /// Records output of the model. The first output after an input counts as an API call.
    pub(super) fn note_output(&mut self) {
        if !std::mem::replace(&mut self.has_output, true) {
            self.api_calls += 1;
        }
    }

    /// Sets the text of a message. An empty text removes the message.
    pub(super) fn set_text(&mut self, index: u32, text: &Arc<str>) {
        let place = self
            .parts
            .iter()
            .position(|part| matches!(part, TranscriptPart::Text(known, _) if *known == index));
        match place {
            Some(place) if text.is_empty() => drop(self.parts.remove(place)),
            Some(place) => self.parts[place] = TranscriptPart::Text(index, Arc::clone(text)),
            None if text.is_empty() => {}
            None => self.parts.push(TranscriptPart::Text(index, Arc::clone(text))),
        }
    }

    /// Adds a tool call. Omits calls of a sub-agent, which are part of its parent tool's work.
    pub(super) fn add_call(&mut self, call: &ToolCall) {
        if call.parent.is_none() {
            self.note_output();
            self.parts.push(TranscriptPart::Call(call.clone()));
        }
    }

    pub(super) fn add_result(&mut self, result: &ToolResult) {
        let is_ours = |part: &TranscriptPart| matches!(part, TranscriptPart::Call(ToolCall { id, .. }) if *id == result.id);
        if self.parts.iter().any(is_ours) {
            self.has_output = false;
            self.parts.push(TranscriptPart::Result(result.clone()));
        }
    }

    /// Returns how often the model was called: once, and once more after every round of tools.
    pub(super) const fn api_calls(&self) -> u32 {
        self.api_calls
    }
}

/// An assistant message: its text, then its tool calls.
struct AssistantEntry<'a>(&'a [TranscriptPart]);

struct ToolCallEntry<'a>(&'a ToolCall);

impl Serialize for RunTranscript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let mut rest = &self.parts[..];
        while let Some(first) = rest.first() {
            let length = assistant_message_len(rest);
            if length == 0 {
                messages.serialize_element(&InputEntry(first))?;
                rest = &rest[1..];
            } else {
                messages.serialize_element(&AssistantEntry(&rest[..length]))?;
                rest = &rest[length..];
            }
        }
        messages.end()
    }
}

/// Returns the number of leading parts that form one assistant message: at most one text, then
/// calls.
fn assistant_message_len(parts: &[TranscriptPart]) -> usize {
    let text = usize::from(matches!(parts.first(), Some(TranscriptPart::Text(..))));
    let calls = parts[text..].iter();
    text + calls.take_while(|part| matches!(part, TranscriptPart::Call(_))).count()
}

/// An input of the model: the prompt or a tool result.
struct InputEntry<'a>(&'a TranscriptPart);

impl Serialize for InputEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            TranscriptPart::Prompt(text) | TranscriptPart::Text(_, text) => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", text)?;
            }
            TranscriptPart::Result(result) => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_id", result.id.as_str())?;
                map.serialize_entry("ok", &result.ok)?;
                map.serialize_entry("content", &result.output)?;
            }
            TranscriptPart::Call(call) => {
                map.serialize_entry("tool_calls", &[ToolCallEntry(call)])?;
            }
        }
        map.end()
    }
}

impl Serialize for AssistantEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.iter().find_map(|part| match part {
            TranscriptPart::Text(_, text) => Some(text),
            _ => None,
        });
        let calls = self.0.iter().filter_map(|part| match part {
            TranscriptPart::Call(call) => Some(ToolCallEntry(call)),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        map.serialize_entry("content", &text)?;
        if !calls.is_empty() {
            map.serialize_entry("tool_calls", &calls)?;
        }
        map.end()
    }
}

impl Serialize for ToolCallEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("tool_id", ToolId::as_str(&self.0.id))?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("input", &self.0.input)?;
        map.end()
    }
}
