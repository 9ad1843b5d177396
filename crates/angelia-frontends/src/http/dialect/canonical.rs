//! Hashes a conversation in canonical form. Clients that keep no session send the whole
//! conversation every time, and rarely as they received it: strings become blocks, thinking is
//! dropped, whitespace is trimmed. Conversations with the same meaning have the same hash; two
//! callers never share one.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::model::{Content, Message, Part, Role};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(super) type Hash = [u8; 32];

/// The hash of a conversation so far; it grows by messages.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    hash: Hash,
    /// Consecutive messages of one role count as one message.
    last: Option<(Role, Vec<Canon>)>,
}

/// A part of a message in canonical form.
#[derive(Clone, Debug)]
enum Canon {
    Text(String),
    /// Anything else, as a list of byte strings.
    Other(Vec<Arc<[u8]>>),
}

impl Chain {
    /// Starts the empty conversation of a caller.
    pub(super) fn new(caller: &str) -> Self {
        Self { hash: digest([&b"angelia conversation 1"[..], caller.as_bytes()]), last: None }
    }

    pub(super) fn of<'a>(caller: &str, messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let mut chain = Self::new(caller);
        for message in messages {
            chain.push(message);
        }
        chain
    }

    pub(super) fn push(&mut self, message: &Message) {
        let mut parts = Vec::new();
        canonical(&message.parts, &mut parts);
        if let Some((role, last)) = &mut self.last
            && *role == message.role
        {
            for part in parts {
                join(last, part);
            }
            return;
        }
        // An empty message must not separate two messages of the other role.
        if !parts.iter().any(Canon::counts) {
            return;
        }
        self.hash = self.hash();
        self.last = Some((message.role, parts));
    }

    pub(super) fn hash(&self) -> Hash {
        let Some((role, parts)) = &self.last else {
            return self.hash;
        };
        let role: &[u8] = match role {
            Role::User => b"user",
            Role::Assistant => b"assistant",
        };
        let mut all: Vec<&[u8]> = vec![&self.hash, role];
        for part in parts.iter().filter(|part| part.counts()) {
            match part {
                Canon::Text(text) => all.extend([&b"text"[..], text.trim().as_bytes()]),
                Canon::Other(parts) => all.extend(parts.iter().map(|part| &**part)),
            }
        }
        digest(all)
    }

    /// Returns whether the conversation is empty. An empty history never matches.
    pub(super) const fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}

impl Canon {
    fn counts(&self) -> bool {
        match self {
            Self::Text(text) => !text.trim().is_empty(),
            Self::Other(_) => true,
        }
    }
}

fn canonical(parts: &[Part], out: &mut Vec<Canon>) {
    for part in parts {
        match part {
            Part::Content(content) => join(out, content_form(content)),
            Part::Thinking { .. } => {}
            Part::ToolUse { id, name, input } => {
                let input = sorted(input.get());
                join(
                    out,
                    other(&[b"use", id.as_str().as_bytes(), name.as_bytes(), input.as_bytes()]),
                );
            }
            Part::ToolResult { id, ok, content } => {
                let mut inner = Vec::new();
                for content in content {
                    join(&mut inner, content_form(content));
                }
                let ok: &[u8] = if *ok { b"ok" } else { b"error" };
                let mut form: Vec<Arc<[u8]>> =
                    vec![b"result"[..].into(), id.as_str().as_bytes().into(), ok.into()];
                for part in inner.into_iter().filter(Canon::counts) {
                    match part {
                        Canon::Text(text) => {
                            form.extend([b"text"[..].into(), text.trim().as_bytes().into()]);
                        }
                        Canon::Other(parts) => form.extend(parts),
                    }
                }
                // The end mark keeps the parts that follow apart from this result.
                form.push(b"end of result"[..].into());
                join(out, Canon::Other(form));
            }
        }
    }
}

fn content_form(content: &Content) -> Canon {
    match content {
        Content::Text(text) => Canon::Text(text.to_string()),
        Content::Image { data, .. } => other(&[b"image", &Sha256::digest(data)]),
    }
}

fn other(parts: &[&[u8]]) -> Canon {
    Canon::Other(parts.iter().map(|part| Arc::from(*part)).collect())
}

/// Appends a part; adjacent texts are merged into one.
fn join(parts: &mut Vec<Canon>, part: Canon) {
    match (parts.last_mut(), part) {
        (Some(Canon::Text(before)), Canon::Text(text)) => before.push_str(&text),
        (_, part) => parts.push(part),
    }
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length prefix keeps different lists of parts distinct.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Returns JSON with sorted keys and one spelling of numbers. `null` counts as no arguments.
pub(super) fn sorted(json: &str) -> String {
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
        // As a client with only one number type (JavaScript) would send it back.
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
