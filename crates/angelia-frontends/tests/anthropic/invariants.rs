//! The invariants for any body; the fuzz target checks the same.

use angelia_core::model::{Content, Message, Part, Role};
use angelia_frontends::http::{
    anthropic::{Messages, NotRead, count_tokens, decode},
    dialect::{Ask, Dialect, DialectError, Refused, ToolChoice},
};

/// Asserts that a body is either refused with a reason or a request that can be served.
pub(crate) fn check(body: &[u8]) {
    let counted = count_tokens(body);
    match decode(body) {
        Ok((ask, _)) => {
            check_ask(&ask);
            let count: serde_json::Value = serde_json::from_slice(&counted.unwrap()).unwrap();
            assert!(count["input_tokens"].as_u64().unwrap() > 0);
            assert_eq!(count["estimated"], true);
        }
        Err(NotRead::NoThread) => {}
        Err(NotRead::Refused(refused)) => check_refused(refused),
    }
}

fn check_ask(ask: &Ask) {
    assert!(!ask.model.is_empty());
    assert!(!ask.messages.is_empty());
    assert!(ask.max_tokens != Some(0));
    for message in &ask.messages {
        check_message(message);
    }
    for (index, tool) in ask.tools.iter().enumerate() {
        assert!(!tool.name.is_empty());
        assert!(tool.input_schema.get().starts_with('{'));
        let before = &ask.tools[..index];
        assert!(before.iter().all(|other| other.name != tool.name));
    }
    if let ToolChoice::Named(name) = &ask.tool_choice {
        assert!(ask.tools.iter().any(|tool| tool.name == *name));
    }
}

fn check_message(message: &Message) {
    assert!(!message.parts.is_empty());
    for part in &message.parts {
        match part {
            Part::Content(Content::Text(text)) => assert!(!text.is_empty()),
            Part::Content(Content::Image { media_type, .. }) => {
                assert!(media_type.starts_with("image/"));
            }
            Part::ToolUse { input, .. } => {
                assert_eq!(message.role, Role::Assistant);
                assert!(input.get().starts_with('{'));
            }
            Part::Thinking { .. } => assert_eq!(message.role, Role::Assistant),
            Part::ToolResult { .. } => assert_eq!(message.role, Role::User),
        }
    }
}

fn check_refused(refused: Refused) {
    assert!(!refused.message.is_empty());
    let error = DialectError::from(refused);
    let (status, body) = Messages::error(&error);
    assert_eq!(status, 400);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["type"], "invalid_request_error");
}
