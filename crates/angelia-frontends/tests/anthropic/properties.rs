//! Any JSON gives an error or a request, never a panic.

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::select,
};
use serde_json::{Map, Value, json};

use crate::invariants;

/// Words of the API, so that the generated shapes come close to real requests.
const WORDS: [&str; 24] = [
    "type",
    "role",
    "content",
    "text",
    "user",
    "assistant",
    "system",
    "tool_use",
    "tool_result",
    "thinking",
    "signature",
    "image",
    "document",
    "source",
    "base64",
    "url",
    "media_type",
    "image/png",
    "data",
    "id",
    "tool_use_id",
    "input",
    "name",
    "is_error",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(WORDS.to_vec()).prop_map(str::to_owned),
        1 => ".{0,8}",
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(word(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Generates a block that is nearly valid.
fn block() -> impl Strategy<Value = Value> {
    let kinds = [
        "text",
        "image",
        "document",
        "search_result",
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "what",
    ];
    let fields = btree_map(word(), any_json(), 0..4);
    (select(kinds.to_vec()), fields, "[a-z ]{0,6}").prop_map(|(kind, fields, text)| {
        let mut block = json!({"type": kind, "text": text, "id": "t1", "tool_use_id": "t1",
            "name": "n", "thinking": text, "source": {"type": "text", "data": text}});
        for (name, value) in fields {
            block[name] = value;
        }
        block
    })
}

fn message() -> impl Strategy<Value = Value> {
    let role = select(vec!["user", "assistant", "system", "user", "assistant"]);
    let content = prop_oneof![
        3 => vec(block(), 0..4).prop_map(Value::from),
        1 => "[a-z ]{0,8}".prop_map(Value::from),
        1 => any_json(),
    ];
    (role, content).prop_map(|(role, content)| json!({"role": role, "content": content}))
}

fn request() -> impl Strategy<Value = Value> {
    let fields = [
        "system",
        "tools",
        "tool_choice",
        "output_config",
        "thinking",
        "metadata",
        "stream",
        "max_tokens",
        "stop_sequences",
    ];
    let extra = btree_map(select(fields.to_vec()), any_json(), 0..3);
    (vec(message(), 0..5), extra).prop_map(|(messages, extra)| {
        let mut request = json!({"model": "claude/sonnet", "messages": messages});
        for (name, value) in extra {
            request[name] = value;
        }
        request
    })
}

proptest! {
    #[test]
    fn any_json_is_a_reason_or_a_request(body in any_json()) {
        invariants::check(body.to_string().as_bytes());
    }

    #[test]
    fn nearly_a_request_is_a_reason_or_a_request(body in request()) {
        invariants::check(body.to_string().as_bytes());
    }

    #[test]
    fn any_bytes_are_a_reason(body in vec(any::<u8>(), 0..64)) {
        invariants::check(&body);
    }
}

#[test]
fn what_is_nested_without_end_is_refused_or_carried() {
    let deep = |open: &str, close: &str| {
        let times = 200_000;
        format!("{}1{}", open.repeat(times), close.repeat(times))
    };
    let lists = deep("[", "]");
    let documents = deep(r#"{"type":"document","source":{"type":"content","content":["#, "]}}");
    for content in [lists, format!("[{documents}]")] {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#);
        invariants::check(body.as_bytes());
    }
    let input = deep("[", "]");
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"tools":[{{"name":"t",
        "input_schema":{{"a":{input}}}}}]}}"#
    );
    invariants::check(body.as_bytes());
}
