//! Answers with a required schema, produced by the program itself and checked here.

use serde_json::json;

use crate::{
    daemon_fixture::{DaemonFixture, on_both},
    post::{messages, post_to, user},
};

on_both! {
    a_schema super::a_schema;
    a_schema_that_is_never_met super::a_schema_that_is_never_met;
    a_model_that_the_vendor_does_not_have super::a_model_that_the_vendor_does_not_have;
}

fn a_schema(bench: DaemonFixture) {
    let prompt = r#"TOOL:{"name":"StructuredOutput","input":{"city":"Paris"}}:END"#;
    let mut body = messages(&[user(prompt)]);
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "place",
        "schema": {"type": "object", "properties": {"city": {"type": "string"}},
            "required": ["city"], "additionalProperties": false}}});
    let answer = post_to(&bench, "/v1/chat/completions", &body);
    let content = answer.body["choices"][0]["message"]["content"].as_str();
    let content = content.unwrap_or_else(|| panic!("{answer:?}"));
    let content: serde_json::Value = serde_json::from_str(content).unwrap();
    assert_eq!(content, json!({"city": "Paris"}));
    bench.end();
}

fn a_model_that_the_vendor_does_not_have(bench: DaemonFixture) {
    let answer = post_to(&bench, "/v1/messages", &messages(&[user("STATUS:404 ECHO:no model")]));
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(answer.body["error"]["type"], "not_found_error", "{answer:?}");
    bench.end();
}

fn a_schema_that_is_never_met(bench: DaemonFixture) {
    let mut body = messages(&[user("ECHO:no")]);
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "place",
        "schema": {"type": "object", "required": ["city"]}}});
    let answer = post_to(&bench, "/v1/chat/completions", &body);
    assert!(matches!(answer.status, 422 | 502), "{answer:?}");
    bench.end();
}
