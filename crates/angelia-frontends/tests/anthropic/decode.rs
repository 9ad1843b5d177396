//! Decoding of requests: the fields around the conversation, and the conversation as a whole.

use angelia_core::model::{MessagePart, Role};
use angelia_frontends::http::{
    ErrorKind,
    anthropic::{MessagesDialect, count_tokens, decode as read},
    dialect::{Dialect as _, ModelRequest, OutputFormat},
};
use serde_json::{Value, json};

use crate::content::{format_request, roles};

pub(crate) fn request(messages: Value, more: Value) -> Value {
    let mut request = json!({"model": "claude/sonnet", "max_tokens": 1024, "messages": messages});
    if let Value::Object(more) = more {
        for (name, value) in more {
            request[name] = value;
        }
    }
    request
}

pub(crate) fn decode(body: &Value) -> (ModelRequest, MessagesDialect) {
    match read(body.to_string().as_bytes()) {
        Ok(read) => read,
        Err(refused) => panic!("{refused}: {body}"),
    }
}

/// Returns the field and the message of the refusal.
pub(crate) fn refused(body: &Value) -> (Option<String>, String) {
    match read(body.to_string().as_bytes()) {
        Err(error) if error.kind == ErrorKind::Refused => (error.field, error.message),
        other => panic!("not refused: {other:?}"),
    }
}

fn hello() -> Value {
    json!([{"role": "user", "content": "hello"}])
}

#[test]
fn the_smallest_request() {
    let body = json!({"model": "m", "messages": hello()});
    let (ask, dialect) = decode(&body);
    assert_eq!((&*ask.model, ask.stream, ask.max_tokens), ("m", false, None));
    assert!(ask.system.is_none() && ask.tools.is_empty() && !ask.is_utility);
    assert!(matches!(ask.output_format, OutputFormat::Text) && ask.previous_turn.is_none());
    assert!(!dialect.thinking);
    assert_eq!(format_request(&ask), "user: hello");
}

#[test]
fn a_request_of_claude_code() {
    let body = request(
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nToday's date\n</system-reminder>"},
                {"type": "text", "text": "fix it", "cache_control": {"type": "ephemeral"}}]},
            {"role": "system", "content": "Available agent types: …"},
        ]),
        json!({
            "stream": true, "max_tokens": 64000,
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325.a1b; cc_entrypoint=cli;"},
                {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Be brief."}],
            "tools": [
                {"name": "Bash", "description": "Runs a command", "input_schema": {"type": "object"}},
                {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
            "metadata": {"user_id": "{\"device_id\":\"x\",\"session_id\":\"y\"}"},
            "thinking": {"type": "adaptive"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "medium"},
            "betas": ["something-2027-01-01"], "temperature": 1, "speed": "fast",
        }),
    );
    let (ask, dialect) = decode(&body);
    assert_eq!(ask.system.as_deref(), Some("You are Claude Code.\n\nBe brief."));
    assert_eq!(ask.tools.len(), 1);
    assert!(ask.stream && dialect.thinking && !ask.is_utility);
    assert_eq!(ask.max_tokens, Some(64000));
    insta::assert_snapshot!(format_request(&ask));
}

#[test]
fn a_conversation_keeps_its_roles() {
    let body = request(
        json!([
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "abc="},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "get", "input": {"city": "Athens"}},
                {"type": "tool_use", "id": "t2", "name": "get", "input": null}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": [
                    {"type": "text", "text": "no"}]},
                {"type": "text", "text": "and now?"}]},
            {"role": "assistant", "content": "Sunny."},
            {"role": "user", "content": "thanks"},
        ]),
        Value::Null,
    );
    let (ask, _) = decode(&body);
    assert_eq!(roles(&ask), [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
    insta::assert_snapshot!(format_request(&ask));
}

#[test]
fn our_own_signature_is_none() {
    let thought = |signature: Value| {
        let body = request(
            json!([
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": signature},
                    {"type": "text", "text": "b"}]},
                {"role": "user", "content": "c"},
            ]),
            Value::Null,
        );
        let (ask, _) = decode(&body);
        match &ask.messages[1].parts[0] {
            MessagePart::Thinking { signature, .. } => signature.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(thought(json!("dGhlaXJz")).as_deref(), Some("dGhlaXJz"));
    for ours in [json!("YW5nZWxpYQ=="), json!(""), Value::Null] {
        assert_eq!(thought(ours), None);
    }
}

#[test]
fn system_prompts() {
    let system = |system: Value| decode(&request(hello(), json!({"system": system}))).0.system;
    assert_eq!(system(json!("Be brief.")).as_deref(), Some("Be brief."));
    assert_eq!(system(json!("")), None);
    assert_eq!(system(Value::Null), None);
    assert_eq!(system(json!([])), None);
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": " "}, "b"]);
    assert_eq!(system(blocks).as_deref(), Some("a\n\nb"));
    let (field, _) = refused(&request(hello(), json!({"system": 5})));
    assert_eq!(field.as_deref(), Some("system"));
}

#[test]
fn an_answer_of_a_given_form() {
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    for more in [
        json!({"output_config": {"format": format, "effort": "low"}}),
        json!({"output_format": format}),
    ] {
        match decode(&request(hello(), more)).0.output_format {
            OutputFormat::Schema(schema) => assert_eq!(schema.get(), r#"{"type":"object"}"#),
            other => panic!("{other:?}"),
        }
    }
    for (more, field) in [
        (json!({"output_config": {"format": {"type": "grammar"}}}), "output_config.format.type"),
        (json!({"output_format": {"type": "json_schema"}}), "output_format.schema"),
        (json!({"output_config": {"format": 5}}), "output_config.format"),
    ] {
        assert_eq!(refused(&request(hello(), more)).0.as_deref(), Some(field));
    }
    for more in [json!({"output_config": null}), json!({"output_config": {"format": null}})] {
        assert!(matches!(decode(&request(hello(), more)).0.output_format, OutputFormat::Text));
    }
}

#[test]
fn thoughts_are_wanted_or_not() {
    let wants =
        |thinking: Value| decode(&request(hello(), json!({"thinking": thinking}))).1.thinking;
    assert!(wants(json!({"type": "enabled", "budget_tokens": 2000})));
    assert!(wants(json!({"type": "adaptive", "display": "summarized"})));
    assert!(wants(json!({"type": "something_new"})));
    assert!(!wants(json!({"type": "disabled"})));
    assert!(!wants(json!({"type": "adaptive", "display": "omitted"})));
    assert!(!wants(json!(true)));
}

#[test]
fn what_cannot_be_honoured_is_refused_with_its_field() {
    let image = |source: Value| {
        let content =
            json!([{"type": "text", "text": "look"}, {"type": "image", "source": source}]);
        json!([{"role": "user", "content": content}])
    };
    let cases = [
        (json!({"messages": hello()}), Some("model")),
        (json!({"model": "m"}), Some("messages")),
        (request(hello(), json!({"model": ""})), Some("model")),
        (request(hello(), json!({"model": 5})), Some("model")),
        (request(hello(), json!({"max_tokens": 0})), Some("max_tokens")),
        (request(hello(), json!({"max_tokens": "many"})), Some("max_tokens")),
        (request(hello(), json!({"stop_sequences": [5]})), Some("stop_sequences.0")),
        (request(hello(), json!({"stream": "yes"})), Some("stream")),
        (request(hello(), json!({"compaction": {}})), Some("compaction")),
        (request(json!([]), Value::Null), Some("messages")),
        (request(json!("hi"), Value::Null), Some("messages")),
        (request(json!([{"role": "user", "content": " \n"}]), Value::Null), Some("messages")),
        (request(json!([{"role": "user", "content": 5}]), Value::Null), Some("messages.0.content")),
        (
            request(json!([{"role": "user", "content": [5]}]), Value::Null),
            Some("messages.0.content.0"),
        ),
        (
            request(json!([{"role": "user", "content": [{"text": "a"}]}]), Value::Null),
            Some("messages.0.content.0"),
        ),
        (
            request(
                json!([{"role": "user", "content": [{"type": "text", "text": 1}]}]),
                Value::Null,
            ),
            Some("messages.0.content.0.text"),
        ),
        (
            request(image(json!({"type": "url", "url": "https://example.org/a.png"})), Value::Null),
            Some("messages.0.content.1.source"),
        ),
        (
            request(image(json!({"type": "file", "file_id": "file_1"})), Value::Null),
            Some("messages.0.content.1.source"),
        ),
        (
            request(
                image(json!({"type": "base64", "media_type": "image/tiff", "data": "AA=="})),
                Value::Null,
            ),
            Some("messages.0.content.1.source"),
        ),
        (
            request(
                image(json!({"type": "base64", "media_type": "image/png", "data": "?"})),
                Value::Null,
            ),
            Some("messages.0.content.1.source"),
        ),
    ];
    let mut said = String::new();
    for (body, field) in cases {
        let (at, message) = refused(&body);
        assert_eq!(at.as_deref(), field, "{message}: {body}");
        said.push_str(&message);
        said.push('\n');
    }
    insta::assert_snapshot!(said);
    assert!(read(b"").unwrap_err().to_string().contains("not JSON"));
    assert!(read(b"[]").unwrap_err().to_string().contains("object"));
    assert!(read(b"{\"model\":\"m\"} x").is_err());
}

#[test]
fn an_answer_can_be_sent_back_to_be_continued() {
    let begun = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let (ask, _) = decode(&request(begun, Value::Null));
    assert_eq!(roles(&ask), [Role::User, Role::Assistant]);
}

#[test]
fn a_thread_is_begun_but_not_kept() {
    decode(&request(hello(), json!({"thread": {"type": "create"}})));
    let continued = json!({"thread": {"type": "continue", "previous_message_id": "msg_1"}});
    let error = read(request(hello(), continued).to_string().as_bytes()).unwrap_err();
    let (status, body) = (error.status(), MessagesDialect::encode_error(&error));
    assert_eq!(status, 404);
    insta::assert_snapshot!(String::from_utf8(body).unwrap(), @r#"{"type":"error","error":{"type":"not_found_error","message":"no conversation is kept under this `previous_message_id`; send all of it again","details":{"error_code":"thread_not_found"}}}"#);
}

#[test]
fn a_result_of_no_call_is_refused() {
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t9", "content": "x"}]});
    let history = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, result]);
    let (_, message) = refused(&request(history, Value::Null));
    assert!(message.contains("t9"), "{message}");
    // A session named by a header may know the call.
    decode(&request(json!([result]), Value::Null));
}

#[test]
fn what_claude_code_asks_for_itself() {
    let quota =
        json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]});
    assert!(decode(&quota).0.is_utility);
    let title = "Generate a concise, sentence-case title (3-7 words) that captures the main topic";
    assert!(decode(&request(hello(), json!({"system": title}))).0.is_utility);
    let tools = json!([{"name": "t", "input_schema": {}}]);
    assert!(!decode(&request(hello(), json!({"system": title, "tools": tools}))).0.is_utility);
}

#[test]
fn tokens_are_estimated() {
    let count = |body: &Value| -> Value {
        let counted = count_tokens(body.to_string().as_bytes()).unwrap();
        serde_json::from_slice(&counted).unwrap()
    };
    let small = count(&json!({"model": "m", "messages": hello()}));
    assert_eq!(small, json!({"input_tokens": 6, "estimated": true}));
    let tools = json!([{"name": "t", "description": "d".repeat(400), "input_schema": {}}]);
    let large = count(&request(hello(), json!({"system": "s".repeat(4000), "tools": tools})));
    let large = large["input_tokens"].as_u64().unwrap();
    assert!((1100..1200).contains(&large), "{large}");
    // Counting tokens also works for a request that could not be answered.
    let begun = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    count(&json!({"model": "m", "messages": begun}));
    assert!(count_tokens(b"{}").is_err());
}
