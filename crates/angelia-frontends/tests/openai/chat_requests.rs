//! Chat Completions: decoding of requests.

use std::fmt::Write;

use angelia_frontends::http::openai::chat::{ChatDialect, decode};
use serde_json::{Value, json};

use crate::describe;

const PIXEL: &str = "data:image/png;base64,iVBORw==";

fn told(body: &Value) -> String {
    match decode(body.to_string().as_bytes()) {
        Ok((request, ChatDialect { include_usage, legacy })) => {
            let request = describe::format_request(&request);
            format!("{request}\nChat {{ include_usage: {include_usage}, legacy: {legacy} }}")
        }
        Err(refused) => describe::format_refusal(&refused),
    }
}

/// Returns a request with these messages and more fields.
fn with(messages: &Value, mut more: Value) -> Value {
    more["model"] = "claude/sonnet".into();
    more["messages"] = messages.clone();
    more
}

fn hi(more: Value) -> Value {
    with(&json!([{"role": "user", "content": "hi"}]), more)
}

#[test]
fn a_conversation_keeps_its_roles() {
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "And kind."}]},
        {"role": "user", "content": "one", "name": "Ann"},
        {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}]},
        {"role": "assistant", "content": "three", "reasoning_content": "hm", "audio": null},
        {"role": "assistant", "content": null, "refusal": "No."},
        {"role": "system", "content": "Now in French."},
        {"role": "user", "content": "four"},
    ]);
    let more = json!({
        "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.1,
        "stop": ["x"], "seed": 1, "max_tokens": 10, "max_completion_tokens": 20, "user": "u",
        "n": 1, "prompt_cache_key": "k", "a_field_of_tomorrow": {"x": [1]},
    });
    insta::assert_snapshot!(told(&with(&messages, more)));
}

#[test]
fn calls_and_results_keep_their_ids() {
    let messages = json!([
        {"role": "user", "content": "weather and time?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}},
            {"id": "call_2", "type": "function", "function": {"name": "get_time", "arguments": ""}},
            {"id": "call_3", "type": "function", "function": {"name": "broken", "arguments": "{\"a\":"}},
            {"id": "call_4", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "noon"}]},
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
        {"role": "tool", "tool_call_id": "call_4", "content": "done"},
        {"role": "user", "content": "and?"},
    ]);
    let more = json!({"tools": [
        {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}, "strict": true}},
        {"type": "function", "function": {"name": "get_time"}},
        {"type": "function", "name": "flat", "parameters": null},
        {"type": "function", "function": {"name": "get_time", "description": "again"}},
        {"type": "web_search", "whatever": 1},
    ], "tool_choice": "required", "parallel_tool_calls": true});
    insta::assert_snapshot!(told(&with(&messages, more)));
}

#[test]
fn functions_are_the_tools_of_old() {
    let messages = json!([
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": null, "function_call": {"name": "get_weather", "arguments": "{}"}},
        {"role": "function", "name": "get_weather", "content": "sunny"},
    ]);
    let more = json!({
        "functions": [{"name": "get_weather", "parameters": {"type": "object"}}],
        "function_call": {"name": "get_weather"},
    });
    insta::assert_snapshot!(told(&with(&messages, more)));
}

#[test]
fn a_choice_among_the_tools() {
    let tools = json!([
        {"type": "function", "function": {"name": "a"}},
        {"type": "function", "function": {"name": "b"}},
    ]);
    let choices = [
        json!("auto"),
        json!("none"),
        json!("any"),
        json!("maybe"),
        json!({"type": "function", "function": {"name": "b"}}),
        json!({"type": "function", "name": "a"}),
        json!({"type": "function", "function": {"name": "c"}}),
        json!({"type": "function"}),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "b"}}]}}),
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]}),
        json!({"type": "web_search_preview"}),
        json!(7),
    ];
    let mut all = String::new();
    for choice in choices {
        let body = hi(json!({"tools": tools, "tool_choice": choice}));
        let told = match decode(body.to_string().as_bytes()) {
            Ok((ask, _)) => {
                let names: Vec<&str> = ask.tools.iter().map(|tool| &*tool.name).collect();
                format!("{:?} of {names:?}", ask.tool_choice)
            }
            Err(refused) => describe::format_refusal(&refused),
        };
        writeln!(all, "{choice}\n  {told}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn files_are_carried_as_text_where_they_are_text() {
    let part = |part: Value| with(&json!([{"role": "user", "content": [part]}]), json!({}));
    let file = |file: Value| part(json!({"type": "file", "file": file}));
    let parts = [
        file(
            json!({"filename": "a \"b\".txt", "file_data": "data:text/plain;charset=utf-8;base64,aGVsbG8="}),
        ),
        file(json!({"file_data": "aGVs\nbG8"})),
        file(json!({"filename": "x.png", "file_data": PIXEL})),
        file(json!({"filename": "x.pdf", "file_data": "data:application/pdf;base64,JVBERi0A"})),
        file(json!({"file_id": "file-1"})),
        file(json!({"file_data": "%%%"})),
        part(json!({"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}})),
        part(json!({"type": "image_url", "image_url": PIXEL})),
        part(json!({"type": "image_url", "image_url": {"url": "data:image/bmp;base64,aaaa"}})),
        part(json!({"type": "image_url", "image_url": {"url": "data:image/JPG;base64,aaaa"}})),
        part(json!({"type": "image_url"})),
        part(json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})),
        part(json!({"type": "hologram", "data": [1]})),
        part(json!("bare")),
        part(json!(5)),
        part(json!({"type": "text"})),
    ];
    let mut all = String::new();
    for body in parts {
        let told = match decode(body.to_string().as_bytes()) {
            Ok((ask, _)) => format!("{:?}", ask.messages[0].parts),
            Err(refused) => describe::format_refusal(&refused),
        };
        writeln!(all, "{}\n  {told}", body["messages"][0]["content"][0]).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_form_of_the_answer() {
    let formats = [
        json!({"type": "text"}),
        json!({"type": "json_object"}),
        json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "object"}}}),
        json!({"type": "json_schema", "json_schema": {"name": "x"}}),
        json!({"type": "json_schema"}),
        json!({"type": "grammar"}),
        Value::Null,
    ];
    let mut all = String::new();
    for format in formats {
        let told = match decode(hi(json!({"response_format": format})).to_string().as_bytes()) {
            Ok((ask, _)) => format!("{:?}", ask.output_format),
            Err(refused) => describe::format_refusal(&refused),
        };
        writeln!(all, "{format}\n  {told}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let user = json!([{"role": "user", "content": "hi"}]);
    let bodies = [
        json!([]),
        json!({}),
        json!({"model": "m"}),
        json!({"model": 5, "messages": user}),
        json!({"model": "m", "messages": []}),
        json!({"model": "m", "messages": "hi"}),
        json!({"model": "m", "messages": [{"content": "hi"}]}),
        json!({"model": "m", "messages": [{"role": "robot", "content": "hi"}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": 5}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": ""}]}),
        json!({"model": "m", "messages": [{"role": "system", "content": "only this"}]}),
        json!({"model": "m", "messages": [{"role": "tool", "content": "x"}]}),
        json!({"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]}),
        hi(json!({"n": 2})),
        hi(json!({"logprobs": true})),
        hi(json!({"modalities": ["text", "audio"]})),
        hi(json!({"max_tokens": -1})),
        hi(json!({"stream": "yes"})),
        hi(json!({"tools": [{"type": "function", "function": {"name": ""}}]})),
        hi(json!({"tools": [{"type": "function", "function": {"name": "x", "parameters": []}}]})),
        hi(json!({"tools": [], "tool_choice": "required"})),
        hi(json!({"tools": {}})),
    ];
    let mut all = String::new();
    for body in bodies {
        writeln!(all, "{body}\n  {}", told(&body)).unwrap();
    }
    writeln!(all, "not JSON\n  {}", describe::format_refusal(&decode(b"{\"model\":").unwrap_err()))
        .unwrap();
    writeln!(all, "two\n  {}", describe::format_refusal(&decode(b"{} {}").unwrap_err())).unwrap();
    insta::assert_snapshot!(all);
}

#[test]
fn what_a_chat_window_asks_for_itself_is_no_conversation() {
    let task = "### Task:\nGenerate a concise, 3-5 word title with an emoji.";
    let is_utility = |body: &Value| decode(body.to_string().as_bytes()).unwrap().0.is_utility;
    let asked = with(&json!([{"role": "user", "content": task}]), json!({}));
    assert!(is_utility(&asked));
    assert!(!is_utility(&hi(json!({}))));
    let streamed = with(&json!([{"role": "user", "content": task}]), json!({"stream": true}));
    assert!(!is_utility(&streamed));
}
