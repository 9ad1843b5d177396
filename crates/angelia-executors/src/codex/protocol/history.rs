//! Converts the history of another agent or client to items of the model's API, in the format that
//! `thread/inject_items` expects.
//!
//! Roles are preserved. Reasoning is left out, because only the model that produced it can read it.

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role};
use serde_json::{Value, json};

use super::outgoing::data_url;

pub fn to_api_items(history: &[HistoryMessage]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in history {
        let mut content = Vec::new();
        for part in &message.parts {
            match part {
                MessagePart::Content(one) => content.push(content_item(message.role, one)),
                MessagePart::Thinking { .. } => {}
                MessagePart::ToolUse { id, name, input } => {
                    push_message(message.role, &mut content, &mut items);
                    items.push(json!({
                        "type": "function_call",
                        "call_id": id.as_str(),
                        "name": &**name,
                        "arguments": input.get(),
                    }));
                }
                MessagePart::ToolResult { id, ok, content: output } => {
                    push_message(message.role, &mut content, &mut items);
                    items.push(json!({
                        "type": "function_call_output",
                        "call_id": id.as_str(),
                        "output": tool_output(*ok, output),
                    }));
                }
            }
        }
        push_message(message.role, &mut content, &mut items);
    }
    items
}

fn push_message(role: Role, content: &mut Vec<Value>, items: &mut Vec<Value>) {
    if content.is_empty() {
        return;
    }
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = std::mem::take(content);
    items.push(json!({"type": "message", "role": role, "content": content}));
}

fn content_item(role: Role, content: &Content) -> Value {
    match (role, content) {
        (Role::User, Content::Text(text)) => json!({"type": "input_text", "text": &**text}),
        (Role::Assistant, Content::Text(text)) => json!({"type": "output_text", "text": &**text}),
        (Role::User, Content::Image { media_type, data }) => {
            json!({"type": "input_image", "image_url": data_url(media_type, data)})
        }
        // The API has no image type for assistant messages.
        (Role::Assistant, Content::Image { media_type, .. }) => {
            json!({"type": "output_text", "text": format!("[{media_type}]")})
        }
    }
}

fn tool_output(ok: bool, content: &[Content]) -> Value {
    let has_picture = content.iter().any(|one| matches!(one, Content::Image { .. }));
    if has_picture {
        return content.iter().map(|one| content_item(Role::User, one)).collect();
    }
    let texts = content.iter().filter_map(|one| match one {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    match (ok, text.is_empty()) {
        (false, true) => "failed".into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::ToolId;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn roles_and_calls_stay_what_they_were() {
        let input = RawValue::from_string(r#"{"b":1,"a":2}"#.to_owned()).unwrap();
        let history = [
            HistoryMessage {
                role: Role::User,
                parts: vec![MessagePart::Content(Content::text("hi"))],
            },
            HistoryMessage {
                role: Role::Assistant,
                parts: vec![
                    MessagePart::Thinking { text: "hm".into(), signature: None },
                    MessagePart::Content(Content::text("I look.")),
                    MessagePart::ToolUse {
                        id: ToolId::new("c1"),
                        name: "look".into(),
                        input: input.into(),
                    },
                ],
            },
            HistoryMessage {
                role: Role::User,
                parts: vec![
                    MessagePart::ToolResult {
                        id: ToolId::new("c1"),
                        ok: false,
                        content: Vec::new(),
                    },
                    MessagePart::Content(Content::text("and?")),
                ],
            },
        ];
        assert_eq!(
            Value::from(to_api_items(&history)),
            json!([
                {"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "look",
                    "arguments": "{\"b\":1,\"a\":2}"},
                {"type": "function_call_output", "call_id": "c1", "output": "failed"},
                {"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": "and?"}]},
            ])
        );
    }
}
