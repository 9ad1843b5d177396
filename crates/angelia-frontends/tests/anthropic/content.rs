//! Content blocks: passed on as they are, or as marked text.

use std::fmt::Write as _;

use angelia_core::model::{Content, MessagePart, Role};
use angelia_frontends::http::dialect::ModelRequest;
use serde_json::{Value, json};

use crate::decode::{decode, request};

pub(crate) fn roles(ask: &ModelRequest) -> Vec<Role> {
    ask.messages.iter().map(|message| message.role).collect()
}

/// Formats the conversation, one line per part.
pub(crate) fn format_request(ask: &ModelRequest) -> String {
    let mut told = String::new();
    for message in &ask.messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        for part in &message.parts {
            writeln!(told, "{role}: {}", format_part(part)).unwrap();
        }
    }
    told.trim_end().to_owned()
}

fn format_part(part: &MessagePart) -> String {
    match part {
        MessagePart::Content(content) => format_content(content),
        MessagePart::Thinking { text, signature } => format!("[thinks {text:?} {signature:?}]"),
        MessagePart::ToolUse { id, name, input } => format!("[calls {name} as {id} with {input}]"),
        MessagePart::ToolResult { id, ok, content } => {
            let content: Vec<String> = content.iter().map(format_content).collect();
            format!("[result of {id}, ok {ok}: {}]", content.join(" | "))
        }
    }
}

fn format_content(content: &Content) -> String {
    match content {
        Content::Text(text) => text.to_string(),
        Content::Image { media_type, data } => format!("[{media_type}, {} bytes]", data.len()),
    }
}

fn format_user_content(content: Value) -> String {
    let messages = json!([{"role": "user", "content": content}]);
    format_request(&decode(&request(messages, Value::Null)).0)
}

const PNG: &str = "iVBORw0KGgo=";

#[test]
fn images_that_are_in_the_request() {
    let base64 = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    assert_eq!(format_user_content(json!([base64])), "user: [image/png, 8 bytes]");
    let url = format!("data:image/jpeg;base64,{PNG}");
    let data = json!({"type": "image", "source": {"type": "url", "url": url}});
    assert_eq!(format_user_content(json!([data])), "user: [image/jpeg, 8 bytes]");
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "text", "text": "a"}, base64]});
    assert_eq!(
        format_user_content(json!([result])),
        "user: [result of t, ok true: a | [image/png, 8 bytes]]"
    );
}

#[test]
fn results_of_tools() {
    let result = |content: Value| {
        format_user_content(
            json!([{"type": "tool_result", "tool_use_id": "t", "content": content}]),
        )
    };
    assert_eq!(result(json!("x")), "user: [result of t, ok true: x]");
    assert_eq!(result(json!([])), "user: [result of t, ok true: ]");
    assert_eq!(result(Value::Null), "user: [result of t, ok true: ]");
    let bare = json!([{"type": "tool_result", "tool_use_id": "t", "is_error": true}]);
    assert_eq!(format_user_content(bare), "user: [result of t, ok false: ]");
    let found = json!([{"type": "search_result", "source": "https://example.org", "title": "Page",
        "content": [{"type": "text", "text": "words"}]}, {"type": "tool_reference", "tool_name": "x"}]);
    insta::assert_snapshot!(result(found));
}

#[test]
fn documents_are_marked_text() {
    let documents = json!([
        {"type": "document", "title": "notes.txt", "context": "Read this.",
            "source": {"type": "text", "media_type": "text/plain", "data": "line one"}},
        {"type": "document", "source": {"type": "base64", "media_type": "text/csv", "data": "YSxi"}},
        {"type": "document", "title": "a \"b\"\nc", "source": {"type": "base64",
            "media_type": "application/pdf", "data": "JVBERi0xLjcKAA=="}},
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "source": {"type": "content", "content": [
            {"type": "text", "text": "inner"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}},
        {"type": "document", "source": {"type": "content", "content": "plain"}},
        {"type": "document", "source": 5},
        {"type": "text", "text": "What is it?"},
    ]);
    insta::assert_snapshot!(format_user_content(documents));
}

#[test]
fn unknown_blocks_are_carried() {
    let user = json!([
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "hologram", "text": 5},
        {"type": "tool_use", "id": "t", "name": "n", "input": {}},
        {"type": "search_result", "title": 1},
        "just a string",
    ]);
    insta::assert_snapshot!("unknown_of_user", format_user_content(user));
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "tool_result", "tool_use_id": "s1"},
            {"type": "text", "text": "b", "citations": null}]},
        {"role": "user", "content": "c"},
    ]);
    let ask = decode(&request(messages, Value::Null)).0;
    insta::assert_snapshot!("unknown_of_assistant", format_request(&ask));
}

#[test]
fn what_the_callers_system_says_is_marked() {
    let messages = json!([
        {"role": "system", "content": "first"},
        {"role": "user", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "second"}, {"type": "text", "text": ""}]},
    ]);
    let ask = decode(&request(messages, Value::Null)).0;
    insta::assert_snapshot!(format_request(&ask));
}

#[test]
fn what_says_nothing_is_left_out() {
    let messages = json!([
        {"role": "user", "content": ""},
        {"role": "assistant", "content": []},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "a"}]},
        {"role": "user"},
    ]);
    let ask = decode(&request(messages, Value::Null)).0;
    assert_eq!(format_request(&ask), "user: a");
}
