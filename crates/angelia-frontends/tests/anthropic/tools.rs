//! The caller's tools.

use std::sync::Arc;

use angelia_core::model::ToolChoice;
use serde_json::{Value, json};

use crate::decode::{decode, refused, request};

fn hello(more: Value) -> Value {
    request(json!([{"role": "user", "content": "hello"}]), more)
}

fn names(tools: Value) -> Vec<Arc<str>> {
    let ask = decode(&hello(json!({"tools": tools}))).0;
    ask.tools.into_iter().map(|tool| tool.name).collect()
}

fn weather() -> Value {
    json!({"name": "get_weather", "description": "The weather", "input_schema":
        {"type": "object", "properties": {"city": {"type": "string"}}}, "strict": true,
        "cache_control": {"type": "ephemeral"}, "eager_input_streaming": true})
}

#[test]
fn definitions_arrive_as_they_are() {
    let ask = decode(&hello(json!({"tools": [weather()]}))).0;
    let tool = &ask.tools[0];
    assert_eq!((&*tool.name, &*tool.description), ("get_weather", "The weather"));
    assert_eq!(
        serde_json::from_str::<Value>(tool.input_schema.get()).unwrap(),
        weather()["input_schema"]
    );
    let bare = decode(&hello(json!({"tools": [{"type": "custom", "name": "t"}]}))).0;
    assert_eq!(bare.tools[0].input_schema.get(), r#"{"type":"object"}"#);
}

#[test]
fn what_the_vendor_runs_is_not_offered() {
    let tools = json!([
        {"type": "web_search_20260209", "name": "web_search", "max_uses": 5},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        {"type": "a_new_kind", "name": "new", "input_schema": {"type": "object"}},
        weather(),
    ]);
    assert_eq!(names(tools), ["new".into(), Arc::from("get_weather")]);
}

#[test]
fn what_the_caller_runs_is_offered_also_when_the_vendor_defines_it() {
    let tools = json!([
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 800},
    ]);
    let ask = decode(&hello(json!({"tools": tools}))).0;
    assert_eq!(ask.tools.len(), 4);
    for tool in &ask.tools {
        let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap();
        assert_eq!(schema["type"], "object", "{tool:?}");
        assert!(!tool.description.is_empty(), "{tool:?}");
    }
}

#[test]
fn the_same_name_twice_is_one_tool() {
    assert_eq!(names(json!([weather(), weather()])).len(), 1);
}

#[test]
fn choices() {
    let choice = |choice: Value| {
        decode(&hello(json!({"tools": [weather()], "tool_choice": choice}))).0.tool_choice
    };
    assert_eq!(choice(Value::Null), ToolChoice::Auto);
    assert_eq!(
        choice(json!({"type": "auto", "disable_parallel_tool_use": true})),
        ToolChoice::Auto
    );
    assert_eq!(choice(json!({"type": "none"})), ToolChoice::None);
    assert_eq!(choice(json!({"type": "any"})), ToolChoice::Required);
    let named = choice(json!({"type": "tool", "name": "get_weather"}));
    assert_eq!(named, ToolChoice::Named("get_weather".into()));
}

#[test]
fn what_cannot_be_called_is_refused() {
    let cases = [
        (json!({"tools": [{"input_schema": {}}]}), "tools.0"),
        (json!({"tools": [{"name": "", "input_schema": {}}]}), "tools.0.name"),
        (json!({"tools": [{"name": "t", "input_schema": 5}]}), "tools.0.input_schema"),
        (json!({"tools": [5]}), "tools.0"),
        (json!({"tools": {}}), "tools"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice"),
        (json!({"tool_choice": {"type": "tool", "name": "x"}}), "tool_choice.name"),
        (json!({"tool_choice": {"type": "sometimes"}}), "tool_choice.type"),
    ];
    for (more, field) in cases {
        let (at, message) = refused(&hello(more));
        assert_eq!(at.as_deref(), Some(field), "{message}");
    }
}
