//! The transcript of a run as a list of messages: the `messages` of `final`.

use std::sync::Arc;

use angelia_core::model::{ToolCall, ToolId, ToolResult};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeSeq as _},
};

#[derive(Debug, Default)]
pub(super) struct Said {
    parts: Vec<Part>,
    api_calls: u32,
    /// The model has produced output since its last input (the prompt or a tool result).
    is_speaking: bool,
}

#[derive(Debug)]
enum Part {
    Prompt(Arc<str>),
    /// An assistant message and its index.
    Text(u32, Arc<str>),
    Call(ToolCall),
    Result(ToolResult),
}

impl Said {
    pub(super) fn prompt(&mut self, text: &Arc<str>) {
        self.parts.push(Part::Prompt(Arc::clone(text)));
    }

    /// Notes output of the model; the first one after an input counts as an API call.
    pub(super) fn speaks(&mut self) {
        if !std::mem::replace(&mut self.is_speaking, true) {
            self.api_calls += 1;
        }
    }

    /// Sets the text of a message. An empty text removes the message.
    pub(super) fn text(&mut self, index: u32, text: &Arc<str>) {
        let place = self
            .parts
            .iter()
            .position(|part| matches!(part, Part::Text(known, _) if *known == index));
        match place {
            Some(place) if text.is_empty() => drop(self.parts.remove(place)),
            Some(place) => self.parts[place] = Part::Text(index, Arc::clone(text)),
            None if text.is_empty() => {}
            None => self.parts.push(Part::Text(index, Arc::clone(text))),
        }
    }

    /// Adds a tool call. Calls of a sub-agent are left out: they are part of its parent tool's
    /// work.
    pub(super) fn call(&mut self, call: &ToolCall) {
        if call.parent.is_none() {
            self.speaks();
            self.parts.push(Part::Call(call.clone()));
        }
    }

    pub(super) fn result(&mut self, result: &ToolResult) {
        let is_ours =
            |part: &Part| matches!(part, Part::Call(ToolCall { id, .. }) if *id == result.id);
        if self.parts.iter().any(is_ours) {
            self.is_speaking = false;
            self.parts.push(Part::Result(result.clone()));
        }
    }

    /// Returns how often the model was called: once, and once more after every round of tools.
    pub(super) const fn api_calls(&self) -> u32 {
        self.api_calls
    }
}

/// An assistant message: its text, then its tool calls.
struct Spoken<'a>(&'a [Part]);

struct Call<'a>(&'a ToolCall);

impl Serialize for Said {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let mut rest = &self.parts[..];
        while let Some(first) = rest.first() {
            let length = spoken_until(rest);
            if length == 0 {
                messages.serialize_element(&Told(first))?;
                rest = &rest[1..];
            } else {
                messages.serialize_element(&Spoken(&rest[..length]))?;
                rest = &rest[length..];
            }
        }
        messages.end()
    }
}

/// Returns how many leading parts form one assistant message: at most one text, then calls.
fn spoken_until(parts: &[Part]) -> usize {
    let text = usize::from(matches!(parts.first(), Some(Part::Text(..))));
    let calls = parts[text..].iter();
    text + calls.take_while(|part| matches!(part, Part::Call(_))).count()
}

/// An input of the model: the prompt or a tool result.
struct Told<'a>(&'a Part);

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            Part::Prompt(text) | Part::Text(_, text) => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", text)?;
            }
            Part::Result(result) => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_id", result.id.as_str())?;
                map.serialize_entry("ok", &result.ok)?;
                map.serialize_entry("content", &result.output)?;
            }
            Part::Call(call) => map.serialize_entry("tool_calls", &[Call(call)])?,
        }
        map.end()
    }
}

impl Serialize for Spoken<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.iter().find_map(|part| match part {
            Part::Text(_, text) => Some(text),
            _ => None,
        });
        let calls = self.0.iter().filter_map(|part| match part {
            Part::Call(call) => Some(Call(call)),
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

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("tool_id", ToolId::as_str(&self.0.id))?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("input", &self.0.input)?;
        map.end()
    }
}
