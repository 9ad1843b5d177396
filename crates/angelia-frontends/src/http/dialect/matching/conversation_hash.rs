//! Hashes a conversation in canonical form. Clients that keep no session send the whole
//! conversation every time, and rarely exactly as they received it: strings become blocks, thinking
//! is dropped, whitespace is trimmed. Conversations with the same meaning have the same hash, but
//! different callers never share one.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(in crate::http) type HashBytes = [u8; 32];

/// The hash of a conversation so far. It is extended message by message.
#[derive(Clone, Debug)]
pub(in crate::http) struct ConversationHasher {
    hash: HashBytes,
    /// Consecutive messages with the same role count as one message.
    last: Option<(Role, Vec<CanonicalPart>)>,
}

/// A part of a message in canonical form.
#[derive(Clone, Debug)]
enum CanonicalPart {
    Text(String),
    /// Anything else, as a list of byte strings.
    Opaque(Vec<Arc<[u8]>>),
}

impl ConversationHasher {
    /// Starts the empty conversation of a caller.
    pub(in crate::http) fn new(caller: &str) -> Self {
        Self { hash: digest([&b"angelia conversation 1"[..], caller.as_bytes()]), last: None }
    }

    pub(in crate::http) fn from_messages<'a>(
        caller: &str,
        messages: impl IntoIterator<Item = &'a HistoryMessage>,
    ) -> Self {
        let mut hasher = Self::new(caller);
        for message in messages {
            hasher.push(message);
        }
        hasher
    }

    pub(in crate::http) fn push(&mut self, message: &HistoryMessage) {
        let mut parts = Vec::new();
        append_canonical(&message.parts, &mut parts);
        if let Some((role, last)) = &mut self.last
            && *role == message.role
        {
            for part in parts {
                push_merged(last, part);
            }
            return;
        }
        // An empty message must not separate two messages of the other role.
        if !parts.iter().any(CanonicalPart::is_significant) {
            return;
        }
        self.hash = self.hash();
        self.last = Some((message.role, parts));
    }

    pub(in crate::http) fn hash(&self) -> HashBytes {
        let Some((role, parts)) = &self.last else {
            return self.hash;
        };
        let role: &[u8] = match role {
            Role::User => b"user",
            Role::Assistant => b"assistant",
        };
        let mut all: Vec<&[u8]> = vec![&self.hash, role];
        for part in parts.iter().filter(|part| part.is_significant()) {
            match part {
                CanonicalPart::Text(text) => all.extend([&b"text"[..], text.trim().as_bytes()]),
                CanonicalPart::Opaque(parts) => all.extend(parts.iter().map(|part| &**part)),
            }
        }
        digest(all)
    }

    /// Returns whether the conversation is empty. An empty history never matches.
    pub(in crate::http) const fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}

impl CanonicalPart {
    fn is_significant(&self) -> bool {
        match self {
            Self::Text(text) => !text.trim().is_empty(),
            Self::Opaque(_) => true,
        }
    }
}

fn append_canonical(parts: &[MessagePart], out: &mut Vec<CanonicalPart>) {
    for part in parts {
        match part {
            MessagePart::Content(content) => push_merged(out, canonical_content(content)),
            MessagePart::Thinking { .. } => {}
            MessagePart::ToolUse { id, name, input } => {
                let input = canonical_json(input.get());
                push_merged(
                    out,
                    opaque_part(&[
                        b"use",
                        id.as_str().as_bytes(),
                        name.as_bytes(),
                        input.as_bytes(),
                    ]),
                );
            }
            MessagePart::ToolResult { id, ok, content } => {
                let mut inner = Vec::new();
                for content in content {
                    push_merged(&mut inner, canonical_content(content));
                }
                let ok: &[u8] = if *ok { b"ok" } else { b"error" };
                let mut form: Vec<Arc<[u8]>> =
                    vec![b"result"[..].into(), id.as_str().as_bytes().into(), ok.into()];
                for part in inner.into_iter().filter(CanonicalPart::is_significant) {
                    match part {
                        CanonicalPart::Text(text) => {
                            form.extend([b"text"[..].into(), text.trim().as_bytes().into()]);
                        }
                        CanonicalPart::Opaque(parts) => form.extend(parts),
                    }
                }
                // The end mark separates this result from the parts that follow.
                form.push(b"end of result"[..].into());
                push_merged(out, CanonicalPart::Opaque(form));
            }
        }
    }
}

fn canonical_content(content: &Content) -> CanonicalPart {
    match content {
        Content::Text(text) => CanonicalPart::Text(text.to_string()),
        Content::Image { data, .. } => opaque_part(&[b"image", &Sha256::digest(data)]),
    }
}

fn opaque_part(parts: &[&[u8]]) -> CanonicalPart {
    CanonicalPart::Opaque(parts.iter().map(|part| Arc::from(*part)).collect())
}

/// Appends a part. Adjacent texts are merged.
fn push_merged(parts: &mut Vec<CanonicalPart>, part: CanonicalPart) {
    match (parts.last_mut(), part) {
        (Some(CanonicalPart::Text(before)), CanonicalPart::Text(text)) => before.push_str(&text),
        (_, part) => parts.push(part),
    }
}

/// Hashes a list of byte strings.
pub(super) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> HashBytes {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length prefix keeps different lists of parts distinct.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Returns JSON with sorted keys and one spelling of numbers. `null` counts as no arguments.
fn canonical_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    match serde_json::from_str(json) {
        Ok(Value::Null) => text.push_str("{}"),
        Ok(value) => write_sorted(&value, &mut text),
        Err(_not_json) => text.push_str(json.trim()),
    }
    text
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in fields {
                let _infallible = write!(out, "{key:?}:");
                write_sorted(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(item, out);
                out.push(',');
            }
            out.push(']');
        }
        // Write it as a client with only one number type (JavaScript) would.
        Value::Number(number) => {
            let _infallible = match number.as_f64() {
                Some(float) => write!(out, "{float}"),
                None => write!(out, "{number}"),
            };
        }
        Value::String(_) | Value::Bool(_) | Value::Null => {
            let _infallible = write!(out, "{value}");
        }
    }
}

#[cfg(test)]
mod tests;
