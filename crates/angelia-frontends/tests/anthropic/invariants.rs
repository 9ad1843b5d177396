//! The invariants for any body; the fuzz target checks the same.

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role, ToolChoice};
use angelia_frontends::http::{
    ErrorKind, HttpError,
    anthropic::{MessagesDialect, count_tokens, decode},
    dialect::{Dialect, ModelRequest},
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
        Err(error) if error.kind == ErrorKind::NotFound => {}
        Err(error) => check_refused(&error),
    }
}

fn check_ask(ask: &ModelRequest) {
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

fn check_message(message: &HistoryMessage) {
    assert!(!message.parts.is_empty());
    for part in &message.parts {
        match part {
            MessagePart::Content(Content::Text(text)) => assert!(!text.is_empty()),
            MessagePart::Content(Content::Image { media_type, .. }) => {
                assert!(media_type.starts_with("image/"));
            }
            MessagePart::ToolUse { input, .. } => {
                assert_eq!(message.role, Role::Assistant);
                assert!(input.get().starts_with('{'));
            }
            MessagePart::Thinking { .. } => assert_eq!(message.role, Role::Assistant),
            MessagePart::ToolResult { .. } => assert_eq!(message.role, Role::User),
        }
    }
}

fn check_refused(error: &HttpError) {
    assert!(!error.message.is_empty());
    assert_eq!(error.status(), 400);
    let body = MessagesDialect::encode_error(error);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["type"], "invalid_request_error");
}
