//! Builds messages with real roles from the messages or items of a request.

use std::sync::Arc;

use angelia_core::model::{Content, HistoryMessage, MessagePart, RawJson, Role, ToolId};
use angelia_wire::near_json;
use serde_json::value::{RawValue, to_raw_value};

use super::super::dialect::{InvalidRequest, content::system_text, json};

#[derive(Debug, Default)]
pub(super) struct ConversationBuilder {
    system: Vec<Arc<str>>,
    messages: Vec<HistoryMessage>,
    /// Whether the request continues a conversation without repeating it, so that its system texts
    /// do not come first.
    continues: bool,
}

impl ConversationBuilder {
    /// Starts the new part of a conversation that is already known.
    pub(super) fn continued() -> Self {
        Self { continues: true, ..Self::default() }
    }

    /// Adds a text to the system prompt.
    pub(super) fn push_system(&mut self, text: Arc<str>) {
        if !text.trim().is_empty() {
            self.system.push(text);
        }
    }

    /// Adds system content. At the very start it becomes the system prompt, later marked user text.
    pub(super) fn system(&mut self, contents: Vec<Content>) {
        let precedes = self.messages.is_empty() && !self.continues;
        for content in contents {
            match content {
                Content::Text(text) if precedes => self.push_system(text),
                Content::Text(text) => self.user(vec![system_text(&text)]),
                image @ Content::Image { .. } => self.user(vec![image]),
            }
        }
    }

    pub(super) fn user(&mut self, contents: Vec<Content>) {
        self.push(Role::User, contents.into_iter().map(MessagePart::Content).collect());
    }

    /// Adds parts of an answer. An answer may consist of several items, which form one message.
    pub(super) fn assistant(&mut self, parts: Vec<MessagePart>) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Assistant => last.parts.extend(parts),
            _ => self.push(Role::Assistant, parts),
        }
    }

    /// Adds a tool result. The results of one round form one message.
    pub(super) fn result(&mut self, id: ToolId, content: Vec<Content>) {
        let result = MessagePart::ToolResult { id, ok: true, content };
        let is_result = |part: &MessagePart| matches!(part, MessagePart::ToolResult { .. });
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User && last.parts.iter().all(is_result) => {
                last.parts.push(result);
            }
            _ => self.push(Role::User, vec![result]),
        }
    }

    fn push(&mut self, role: Role, parts: Vec<MessagePart>) {
        if !parts.is_empty() {
            self.messages.push(HistoryMessage { role, parts });
        }
    }

    /// Returns the system prompt and the messages. `field` is the request field of the messages.
    pub(super) fn finish(
        self,
        field: &str,
    ) -> Result<(Option<Arc<str>>, Vec<HistoryMessage>), InvalidRequest> {
        if !self.messages.iter().any(|message| message.role == Role::User) {
            return Err(InvalidRequest::in_field(field, "there must be something to answer"));
        }
        let system = match self.system.as_slice() {
            [] => None,
            [one] => Some(Arc::clone(one)),
            several => Some(several.join("\n\n").into()),
        };
        Ok((system, self.messages))
    }
}

/// Parses the arguments of a call, which the dialects send as text. Anything but a JSON object is
/// wrapped in one: the model sees its text unchanged, and no history is refused because of a
/// model's mistake.
pub(super) fn parse_arguments(text: &str) -> RawJson {
    // The text may contain a lone surrogate that the JSON around it did not reveal.
    let repaired = near_json::repair(text.as_bytes());
    let text = std::str::from_utf8(&repaired).unwrap_or(text).trim();
    if text.is_empty() {
        return json::literal("{}");
    }
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(raw) if raw.get().starts_with('{') => raw.into(),
        _ => wrap_in_object("arguments", text),
    }
}

/// `{"NAME": "text"}`
pub(super) fn wrap_in_object(name: &str, text: &str) -> RawJson {
    let map = serde_json::Map::from_iter([(name.to_owned(), text.into())]);
    match to_raw_value(&map) {
        Ok(raw) => raw.into(),
        // Writing to memory cannot fail.
        Err(_) => json::literal("{}"),
    }
}
