//! Cuts those texts of events whose length the agent decides.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use crate::model::{EventKind, RawJson};

/// Returns the size of those parts of an event whose length the agent decides.
pub(super) fn text_bytes(kind: &EventKind) -> usize {
    match kind {
        EventKind::Delta { text, .. } | EventKind::Block { text, .. } => text.len(),
        EventKind::ToolCall(call) => call.input.get().len(),
        EventKind::ToolResult(result) => result.output.len(),
        EventKind::Native { raw, .. } => raw.get().len(),
        EventKind::Finished(outcome) => outcome.text.len(),
        _ => 0,
    }
}

/// Cuts every text that is longer than `limit` bytes and says so at its end. Returns whether any
/// text was cut.
pub(super) fn cut_texts<'a>(
    kinds: impl IntoIterator<Item = &'a mut EventKind>,
    limit: usize,
) -> bool {
    let mut is_cut = false;
    for kind in kinds {
        is_cut |= cut_text(kind, limit);
    }
    is_cut
}

fn cut_text(kind: &mut EventKind, limit: usize) -> bool {
    if text_bytes(kind) <= limit {
        return false;
    }
    match kind {
        EventKind::Delta { text, .. } | EventKind::Block { text, .. } => *text = cut(text, limit),
        EventKind::ToolCall(call) => call.input = cut_json(&call.input, limit),
        EventKind::ToolResult(result) => result.output = cut(&result.output, limit),
        EventKind::Native { raw, .. } => *raw = cut_json(raw, limit),
        EventKind::Finished(outcome) => outcome.text = cut(&outcome.text, limit),
        _ => return false,
    }
    true
}

/// Returns the beginning of a text, followed by the number of missing bytes.
fn cut(text: &str, limit: usize) -> Arc<str> {
    let end = text.floor_char_boundary(limit);
    format!("{}… [{} bytes are missing here]", &text[..end], text.len() - end).into()
}

/// Cuts a JSON value. The result is a JSON string, because a cut value is no longer valid JSON.
fn cut_json(raw: &RawValue, limit: usize) -> RawJson {
    to_raw_value(&*cut(raw.get(), limit))
        .unwrap_or_else(|_cannot_happen| RawValue::NULL.to_owned())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TextChannel;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        let mut kinds = [
            EventKind::Delta { block: 0, channel: TextChannel::Answer, text: "äöü".into() },
            EventKind::Native { name: "n".into(), raw: to_raw_value("12345678").unwrap().into() },
            EventKind::Delta { block: 0, channel: TextChannel::Answer, text: "a".into() },
        ];
        assert!(cut_texts(&mut kinds, 3));
        let [EventKind::Delta { text, .. }, EventKind::Native { raw, .. }, rest] = &kinds else {
            panic!("{kinds:?}");
        };
        assert_eq!(&**text, "ä… [4 bytes are missing here]");
        assert_eq!(raw.get(), r#""\"12… [7 bytes are missing here]""#);
        assert_eq!(text_bytes(rest), 1);
        // Cutting again changes nothing once every text is short enough.
        assert!(!cut_texts(&mut kinds, 100));
    }
}
