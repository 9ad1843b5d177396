//! Summarizes a conversation as a short text for a reviewer that was not part of it: the last messages, with
//! one line per tool call.

use std::fmt::Write as _;

use crate::model::{Content, HistoryMessage, MessagePart, Role};

/// Limits on the number of messages and on the length of each text.
const MAX_MESSAGES: usize = 48;
const MAX_TEXT_CHARS: usize = 4000;
const MAX_TOOL_CHARS: usize = 300;

/// Returns the last part of a conversation as text.
pub(super) fn digest(messages: &[HistoryMessage]) -> String {
    let first = messages.len().saturating_sub(MAX_MESSAGES);
    let mut text = "A conversation between a person and an agent".to_owned();
    if first > 0 {
        let _infallible = write!(text, ", without its first {first} messages");
    }
    text.push_str(":\n");
    for message in &messages[first..] {
        for part in &message.parts {
            push_part(message.role, part, &mut text);
        }
    }
    text
}

fn push_part(role: Role, part: &MessagePart, text: &mut String) {
    let speaker = match role {
        Role::User => "Person",
        Role::Assistant => "Agent",
    };
    let _infallible = match part {
        MessagePart::Content(Content::Text(said)) => {
            writeln!(text, "\n{speaker}: {}", cut(said, MAX_TEXT_CHARS))
        }
        MessagePart::Content(Content::Image { .. }) => writeln!(text, "\n{speaker}: [an image]"),
        MessagePart::ToolUse { name, input, .. } => {
            writeln!(text, "[{name} {}]", cut(input.get(), MAX_TOOL_CHARS))
        }
        MessagePart::ToolResult { ok, content, .. } => {
            let result = if *ok { "result" } else { "error" };
            let said = content.iter().find_map(|part| match part {
                Content::Text(said) => Some(cut(said, MAX_TOOL_CHARS)),
                Content::Image { .. } => None,
            });
            writeln!(text, "[{result}: {}]", said.unwrap_or_default())
        }
        // One model's thoughts are not passed to another.
        MessagePart::Thinking { .. } => Ok(()),
    };
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::model::ToolId;

    #[test]
    fn the_end_of_a_conversation_is_told() {
        let text = |role, text: &str| HistoryMessage {
            role,
            parts: vec![MessagePart::Content(Content::text(text))],
        };
        let mut messages: Vec<_> =
            (0..60).map(|number| text(Role::User, &format!("message {number}"))).collect();
        let input = RawValue::from_string(r#"{"command":"make"}"#.to_owned()).unwrap();
        messages.push(HistoryMessage {
            role: Role::Assistant,
            parts: vec![MessagePart::ToolUse {
                id: ToolId::new("1"),
                name: "Bash".into(),
                input: input.into(),
            }],
        });
        messages.push(HistoryMessage {
            role: Role::User,
            parts: vec![MessagePart::ToolResult {
                id: ToolId::new("1"),
                ok: false,
                content: vec![Content::text("x".repeat(1000))],
            }],
        });
        let told = digest(&messages);
        assert!(told.contains("without its first 14 messages"), "{told}");
        assert!(!told.contains("message 13\n") && told.contains("Person: message 14\n"), "{told}");
        assert!(told.contains(r#"[Bash {"command":"make"}]"#), "{told}");
        assert!(told.ends_with("x …]\n") && told.len() < 2000, "{told}");
    }
}
