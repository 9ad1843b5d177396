//! Any body is either a request or refused, never a panic.

use angelia_frontends::http::{
    dialect::InvalidRequest,
    openai::{chat, responses},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Asserts the invariants of both decoders for any bytes.
pub(crate) fn check(body: &[u8]) {
    let sensible = |refused: &InvalidRequest| assert!(!refused.message.is_empty());
    match chat::decode(body) {
        Ok((ask, _)) => assert!(!ask.messages.is_empty()),
        Err(refused) => sensible(&refused),
    }
    if let Err(refused) = responses::references(body) {
        sensible(&refused);
    }
    match responses::decode(body, |_| None) {
        Ok((ask, _)) => assert!(!ask.messages.is_empty()),
        Err(refused) => sensible(&refused),
    }
}

/// Words that the decoders look for, and some they do not.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![proptest::sample::select(WORDS).prop_map(str::to_owned), "[a-z\\PC]{0,6}",]
}

const WORDS: &[&str] = &[
    "model",
    "messages",
    "input",
    "role",
    "content",
    "type",
    "text",
    "user",
    "assistant",
    "system",
    "developer",
    "tool",
    "function",
    "tool_calls",
    "tool_call_id",
    "id",
    "call_id",
    "name",
    "arguments",
    "output",
    "parameters",
    "tools",
    "tool_choice",
    "allowed_tools",
    "mode",
    "required",
    "auto",
    "none",
    "n",
    "stream",
    "stream_options",
    "include_usage",
    "image_url",
    "url",
    "input_image",
    "input_text",
    "output_text",
    "file",
    "file_data",
    "input_file",
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "item_reference",
    "format",
    "json_schema",
    "schema",
    "response_format",
    "data:image/png;base64,iVBORw==",
    "refusal",
    "previous_response_id",
    "resp_01990000000070008000000000000001",
    "metadata",
    "custom",
    "msg_01990000000070008000000000000001_0_0",
    "max_tokens",
    "max_output_tokens",
    "functions",
];

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&body);
    }

    #[test]
    fn any_json(value in json_value()) {
        check(value.to_string().as_bytes());
    }

    /// Bodies with a valid model and a list of messages, so that the code behind these is reached.
    #[test]
    fn any_fields(
        fields in prop::collection::btree_map(word(), json_value(), 0..5),
        list in prop::collection::vec(json_value(), 0..5),
    ) {
        let mut body = Value::Object(fields.into_iter().collect());
        body["model"] = "m".into();
        body["messages"] = list.clone().into();
        body["input"] = list.into();
        check(body.to_string().as_bytes());
    }

    /// Bodies with valid roles, so that the code for the content of messages is reached too.
    #[test]
    fn any_message(
        role in proptest::sample::select(&["user", "assistant", "system", "tool", "function"][..]),
        kind in proptest::option::of(word()),
        fields in prop::collection::btree_map(word(), json_value(), 0..5),
        content in json_value(),
        part in prop::collection::btree_map(word(), json_value(), 0..4),
        part_kind in word(),
    ) {
        let mut part = Value::Object(part.into_iter().collect());
        part["type"] = part_kind.into();
        let mut message = Value::Object(fields.into_iter().collect());
        message["role"] = role.into();
        message["content"] = json!([part, content]);
        if let Some(kind) = kind {
            message["type"] = kind.into();
        }
        let list = json!([{"role": "user", "content": "hi"}, message]);
        check(json!({"model": "m", "messages": list, "input": list}).to_string().as_bytes());
    }
}

#[test]
fn deep_and_broken_bodies() {
    let deep = "[".repeat(100_000);
    check(deep.as_bytes());
    let nested = |field: &str, depth: usize| {
        let (open, close) = ("{\"a\":".repeat(depth), "}".repeat(depth));
        format!(
            r#"{{"model":"m","input":"x","messages":[{{"role":"user","content":"x"}}],"{field}":{open}1{close}}}"#
        )
    };
    for field in ["metadata", "text", "response_format", "tool_choice", "unknown", "reasoning"] {
        check(nested(field, 100_000).as_bytes());
        check(nested(field, 100).as_bytes());
    }
    check(b"\xff\xfe{}");
    check(br#"{"model":"m","messages":[{"role":"user","content":"\ud800"}]}"#);
}
