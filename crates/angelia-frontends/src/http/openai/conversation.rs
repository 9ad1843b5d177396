//! Messages with true roles, put together from what a request calls messages or items.

use std::sync::Arc;

use angelia_core::model::{Content, Message, Part, RawJson, Role, ToolId};
use serde_json::value::{RawValue, to_raw_value};

use super::super::dialect::{Refused, content::system_text};

#[derive(Debug, Default)]
pub(super) struct Conversation {
    system: Vec<Arc<str>>,
    messages: Vec<Message>,
    /// Something came before that is not in the request: nothing here precedes it.
    continues: bool,
}

impl Conversation {
    /// What the request adds to a conversation that is known already.
    pub(super) fn continued() -> Self {
        Self { continues: true, ..Self::default() }
    }

    /// What the caller gives as the instructions for all of it.
    pub(super) fn instruct(&mut self, text: Arc<str>) {
        if !text.trim().is_empty() {
            self.system.push(text);
        }
    }

    /// Before everything else it is the system prompt; later, text in the name of the system.
    pub(super) fn system(&mut self, contents: Vec<Content>) {
        let precedes = self.messages.is_empty() && !self.continues;
        for content in contents {
            match content {
                Content::Text(text) if precedes => self.instruct(text),
                Content::Text(text) => self.user(vec![system_text(&text)]),
                image @ Content::Image { .. } => self.user(vec![image]),
            }
        }
    }

    pub(super) fn user(&mut self, contents: Vec<Content>) {
        self.push(Role::User, contents.into_iter().map(Part::Content).collect());
    }

    /// An answer may come in several items; it is one message.
    pub(super) fn assistant(&mut self, parts: Vec<Part>) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Assistant => last.parts.extend(parts),
            _ => self.push(Role::Assistant, parts),
        }
    }

    /// Results of one round are one message.
    pub(super) fn result(&mut self, id: ToolId, content: Vec<Content>) {
        let result = Part::ToolResult { id, ok: true, content };
        let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User && last.parts.iter().all(is_result) => {
                last.parts.push(result);
            }
            _ => self.push(Role::User, vec![result]),
        }
    }

    fn push(&mut self, role: Role, parts: Vec<Part>) {
        if !parts.is_empty() {
            self.messages.push(Message { role, parts });
        }
    }

    /// System prompt and messages; `field` is what the request calls them.
    pub(super) fn finish(self, field: &str) -> Result<(Option<Arc<str>>, Vec<Message>), Refused> {
        if !self.messages.iter().any(|message| message.role == Role::User) {
            let message = format!("{field}: there must be something to answer");
            return Err(Refused::new(message).at(field));
        }
        let system = match self.system.as_slice() {
            [] => None,
            [one] => Some(Arc::clone(one)),
            several => Some(several.join("\n\n").into()),
        };
        Ok((system, self.messages))
    }
}

/// A call's arguments, which the dialects send as text. What is not a JSON object is wrapped in
/// one: models see it as it was, and no history is refused for a mistake of its model.
pub(super) fn arguments(text: &str) -> RawJson {
    let text = text.trim();
    if text.is_empty() {
        return object("{}");
    }
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(raw) if raw.get().starts_with('{') => raw.into(),
        _ => wrapped("arguments", text),
    }
}

/// `{"NAME": "text"}`
pub(super) fn wrapped(name: &str, text: &str) -> RawJson {
    let map = serde_json::Map::from_iter([(name.to_owned(), text.into())]);
    match to_raw_value(&map) {
        Ok(raw) => raw.into(),
        // Writing text into memory cannot fail.
        Err(_) => object("{}"),
    }
}

fn object(json: &str) -> RawJson {
    RawValue::from_string(json.to_owned()).unwrap_or_default().into()
}
