//! Converts a history from elsewhere into items of the model's API, as `thread/inject_items` takes
//! them.
//!
//! Roles are preserved. Reasoning is left out: only the model that produced it can read it again.

use angelia_core::model::{Content, Message, Part, Role};
use serde_json::{Value, json};

use super::outgoing::data_url;

pub fn items(history: &[Message]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in history {
        let mut content = Vec::new();
        for part in &message.parts {
            match part {
                Part::Content(one) => content.push(said(message.role, one)),
                Part::Thinking { .. } => {}
                Part::ToolUse { id, name, input } => {
                    flush(message.role, &mut content, &mut items);
                    items.push(json!({
                        "type": "function_call",
                        "call_id": id.as_str(),
                        "name": &**name,
                        "arguments": input.get(),
                    }));
                }
                Part::ToolResult { id, ok, content: output } => {
                    flush(message.role, &mut content, &mut items);
                    items.push(json!({
                        "type": "function_call_output",
                        "call_id": id.as_str(),
                        "output": tool_output(*ok, output),
                    }));
                }
            }
        }
        flush(message.role, &mut content, &mut items);
    }
    items
}

fn flush(role: Role, content: &mut Vec<Value>, items: &mut Vec<Value>) {
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

fn said(role: Role, content: &Content) -> Value {
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
        return content.iter().map(|one| said(Role::User, one)).collect();
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
            Message { role: Role::User, parts: vec![Part::Content(Content::text("hi"))] },
            Message {
                role: Role::Assistant,
                parts: vec![
                    Part::Thinking { text: "hm".into(), signature: None },
                    Part::Content(Content::text("I look.")),
                    Part::ToolUse {
                        id: ToolId::new("c1"),
                        name: "look".into(),
                        input: input.into(),
                    },
                ],
            },
            Message {
                role: Role::User,
                parts: vec![
                    Part::ToolResult { id: ToolId::new("c1"), ok: false, content: Vec::new() },
                    Part::Content(Content::text("and?")),
                ],
            },
        ];
        assert_eq!(
            Value::from(items(&history)),
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
