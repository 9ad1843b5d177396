//! The text of a turn that the search keeps.

use angelia_core::model::{Content, EventKind, TextChannel};

use super::content_json;

/// A longer text is searched up to this length.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Returns the text of an input; empty if the input cannot be read.
pub(super) fn input_text(body: &str) -> String {
    let parts = content_json::decode(body).unwrap_or_default();
    let texts = parts.iter().filter_map(|part| match part {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns all text of the agent, including the text before the last tool call; if there is none,
/// the text of the outcome.
pub(super) fn answer_text(events: &[EventKind]) -> String {
    let mut said = String::new();
    for event in events {
        let text = match event {
            EventKind::Block { channel: TextChannel::Answer, text, .. } => text,
            EventKind::Finished(outcome) if said.is_empty() => &outcome.text,
            _ => continue,
        };
        said.push_str(text);
        said.push('\n');
    }
    said
}

/// Returns the part of a text that is searched; `None` if there is nothing to find.
pub(super) fn searchable(text: &str) -> Option<&str> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    (!text.trim().is_empty()).then_some(text)
}
