//! Responses: decoding of requests.

use std::fmt::Write;

use angelia_frontends::http::{
    dialect::AnswerBlock,
    openai::responses::{ItemId, decode, references},
};
use serde_json::{Value, json};

use crate::{describe, sample_answers};

const PIXEL: &str = "data:image/png;base64,iVBORw==";
const TURN: &str = "01990000000070008000000000000001";

/// Returns a block of the one stored answer that these tests know.
fn known(id: ItemId) -> Option<AnswerBlock> {
    match id.index {
        0 => Some(sample_answers::reasoning("hm")),
        1 => Some(sample_answers::text("Let me see.")),
        2 => Some(sample_answers::call("toolu_1", "get_weather", "{}")),
        _ => None,
    }
}

fn told(body: &Value) -> String {
    match decode(body.to_string().as_bytes(), known) {
        Ok((ask, _)) => describe::format_request(&ask),
        Err(refused) => describe::format_refusal(&refused),
    }
}

#[test]
fn a_string_is_what_the_user_says() {
    insta::assert_snapshot!(told(&json!({
        "model": "codex/gpt-5.5", "input": "hi", "instructions": "Be brief.",
        "store": false, "include": ["reasoning.encrypted_content"], "stream": true,
        "max_output_tokens": 100, "previous_response_id": format!("resp_{TURN}_1"),
        "text": {"format": {"type": "json_schema", "name": "x", "strict": true, "schema": {"type": "object"}}, "verbosity": "low"},
    })));
}

#[test]
fn items_of_every_kind() {
    insta::assert_snapshot!(told(&json!({
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": "And kind."},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
                {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "xx"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": "I see.", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "No."},
            ]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": "{\"city\":\"Paris\"}", "status": "completed"},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "done"}, {"type": "input_image", "image_url": PIXEL}]},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "local_shell_call_output", "id": "x", "output": "y"},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Now in French."}]},
            {"role": "user", "content": "and?"},
        ],
        "tools": [
            {"type": "function", "name": "get_weather", "description": "Weather.", "parameters": {"type": "object"}, "strict": false},
            {"type": "namespace", "name": "n", "tools": []},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "get_weather"},
        "parallel_tool_calls": false,
        "reasoning": {"effort": "medium", "summary": "auto"},
    })));
}

#[test]
fn items_of_an_earlier_answer_may_be_named() {
    let item = |index: u32| json!({"type": "item_reference", "id": format!("x_{TURN}_0_{index}")});
    let mut body = json!({"model": "m", "input": [
        {"role": "user", "content": "weather?"},
        item(0), item(1), item(2),
        {"type": "function_call_output", "call_id": "toolu_1", "output": "sunny"},
    ]});
    let named = references(body.to_string().as_bytes()).unwrap();
    assert_eq!(named.iter().map(|id| id.index).collect::<Vec<_>>(), [0, 1, 2]);
    insta::assert_snapshot!(told(&body));

    body["input"][2] = item(9);
    let unknown = "[input.2.id] input.2.id: there is no such item; send it whole (`store: false`)";
    assert_eq!(told(&body), unknown);
    body["input"][2] = json!({"type": "item_reference", "id": "msg_68"});
    assert_eq!(told(&body), unknown);
}

#[test]
fn what_is_added_to_a_conversation_does_not_precede_it() {
    let body = json!({
        "model": "m", "previous_response_id": format!("resp_{TURN}"),
        "input": [{"role": "developer", "content": "Now in French."}, {"role": "user", "content": "hi"}],
    });
    insta::assert_snapshot!(told(&body));
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let hi = |mut more: Value| {
        more["model"] = "m".into();
        more["input"] = "hi".into();
        more
    };
    let bodies = [
        json!({"input": "hi"}),
        json!({"model": "m"}),
        json!({"model": "m", "input": ""}),
        json!({"model": "m", "input": []}),
        json!({"model": "m", "input": {"role": "user"}}),
        json!({"model": "m", "input": ["hi"]}),
        json!({"model": "m", "input": [{"role": "robot", "content": "hi"}]}),
        json!({"model": "m", "input": [{"type": "function_call", "name": "x"}]}),
        json!({"model": "m", "input": [{"type": "message", "role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}),
        json!({"model": "m", "input": [{"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]}]}),
        json!({"model": "m", "input": [{"type": "message", "role": "user", "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}]}]}),
        hi(json!({"previous_response_id": "resp_68"})),
        hi(json!({"background": true})),
        hi(json!({"conversation": "conv_1"})),
        hi(json!({"prompt": {"id": "p"}})),
        hi(json!({"top_logprobs": 2})),
        hi(json!({"text": {"format": {"type": "json_schema"}}})),
        hi(json!({"text": 5})),
        hi(json!({"metadata": []})),
    ];
    let mut all = String::new();
    for body in bodies {
        writeln!(all, "{body}\n  {}", told(&body)).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn tools_that_are_more_than_functions() {
    let parameters = json!({"type": "object"});
    insta::assert_snapshot!(told(&json!({
        "model": "m",
        "input": [
            {"role": "user", "content": "mend it"},
            {"type": "function_call", "call_id": "call_1", "namespace": "mcp__disk", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "broken"},
        ],
        "tools": [
            {"type": "namespace", "name": "mcp__disk", "description": "Files.", "tools": [
                {"type": "function", "name": "read", "description": "Reads.", "parameters": parameters},
                {"type": "function", "name": "write", "parameters": parameters},
                {"type": "something_new"},
            ]},
            {"type": "custom", "name": "apply_patch", "description": "Edits.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "custom", "name": "say", "format": 5},
            {"type": "namespace", "name": "empty"},
        ],
        "tool_choice": {"type": "custom", "name": "say"},
    })));
}
