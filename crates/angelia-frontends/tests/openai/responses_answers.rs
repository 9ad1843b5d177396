//! Responses: events and objects, and the ids in them.

use std::fmt::Write;

use angelia_core::model::TurnId;
use angelia_frontends::http::{
    dialect::Dialect,
    openai::responses::{
        ItemId, ResponseId, ResponsesDialect, decode, encode_recorded, encode_unfinished,
    },
};
use serde_json::Value;

use crate::sample_answers::{answers, begin, call, pretty, streamed};

/// Formats one line per event, with the fields that clients need.
fn told(stream: &str) -> String {
    let mut all = String::new();
    for (number, frame) in stream.trim_end().split("\n\n").enumerate() {
        let (event, data) = frame.split_once('\n').unwrap();
        let name = event.strip_prefix("event: ").unwrap();
        let mut data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], name);
        assert_eq!(data["sequence_number"], number);
        let fields = data.as_object_mut().unwrap();
        fields.remove("type");
        fields.remove("sequence_number");
        if let Some(response) = fields.get_mut("response") {
            let keep =
                ["id", "status", "error", "incomplete_details", "output", "usage", "metadata"];
            response.as_object_mut().unwrap().retain(|key, _| keep.contains(&key.as_str()));
        }
        writeln!(all, "{name} {data}").unwrap();
    }
    all
}

#[test]
fn every_answer_as_a_stream() {
    let mut all = String::new();
    for (name, whole) in answers() {
        let stream = streamed(&ResponsesDialect::default(), &whole);
        write!(all, "=== {name}\n{}", told(&stream)).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_bytes_of_a_stream() {
    let (_, whole) = answers().remove(0);
    insta::assert_snapshot!(streamed(&ResponsesDialect::default(), &whole));
}

#[test]
fn most_of_the_request_comes_back() {
    let body = serde_json::json!({
        "model": "claude/sonnet", "input": "hi", "instructions": "Be brief.",
        "previous_response_id": "resp_01990000000070008000000000000009",
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}, {"type": "web_search"}],
        "tool_choice": "auto", "parallel_tool_calls": false,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low"}, "max_output_tokens": 100, "store": false,
        "metadata": {"mine": "1"}, "temperature": 0.5, "top_p": 0.9, "truncation": "auto",
        "user": "u", "prompt_cache_key": "k",
    });
    let (_, responses) = decode(body.to_string().as_bytes(), |_| None).unwrap();
    let (_, whole) = answers().remove(4);
    insta::assert_snapshot!(pretty(&responses.encode_complete(&whole)));
}

#[test]
fn calls_of_custom_and_namespaced_tools_in_their_own_words() {
    let body = serde_json::json!({"model": "m", "input": "mend it", "tools": [
        {"type": "namespace", "name": "mcp__disk", "tools": [{"type": "function", "name": "read"}]},
        {"type": "custom", "name": "apply_patch"},
    ]});
    let (ask, responses) = decode(body.to_string().as_bytes(), |_| None).unwrap();
    let names: Vec<&str> = ask.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["mcp__disk__read", "apply_patch"]);
    let (_, mut whole) = answers().remove(2);
    whole.blocks = vec![
        call("toolu_1", "mcp__disk__read", r#"{"path":"x"}"#),
        call("toolu_2", "apply_patch", r#"{"input":"*** Begin \"x\""}"#),
        call("toolu_3", "apply_patch", r#"{"patch":"not as asked"}"#),
    ];
    let object: Value = serde_json::from_slice(&responses.encode_complete(&whole)).unwrap();
    let stream = streamed(&responses, &whole);
    let events = told(&stream);
    assert!(events.contains(&object["output"].to_string()), "streamed or not, the same");
    insta::assert_snapshot!(events);
}

#[test]
fn every_answer_as_an_object() {
    let mut all = String::new();
    for (name, whole) in answers() {
        let body: Value =
            serde_json::from_slice(&ResponsesDialect::default().encode_complete(&whole)).unwrap();
        let again: Value = serde_json::from_slice(&encode_recorded(&whole)).unwrap();
        let status = (&body["status"], &again["status"]);
        writeln!(all, "=== {name}: {status:?} {}", body["output"]).unwrap();
        assert_eq!(body["output"], again["output"]);
        let stream = streamed(&ResponsesDialect::default(), &whole);
        let last = stream.trim_end().rsplit("data: ").next().unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        assert_eq!(last["response"], body, "streamed or not, the same");
    }
    insta::assert_snapshot!(all);
}

#[test]
fn an_answer_that_has_not_ended() {
    insta::assert_snapshot!(pretty(&encode_unfinished(&begin(0), "in_progress")));
}

#[test]
fn names_lead_back_to_the_turn() {
    let turn: TurnId = "01990000-0000-7000-8000-000000000001".parse().unwrap();
    for part in [0, 1, 17] {
        let id = ResponseId { turn, part };
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    let id: ItemId = "msg_01990000000070008000000000000001_2_3".parse().unwrap();
    assert_eq!((id.response, id.index), (ResponseId { turn, part: 2 }, 3));
    for foreign in ["", "resp_", "resp_68af", "msg_68af", "chatcmpl-1", "msg___", "resp_é_1"] {
        assert!(foreign.parse::<ResponseId>().is_err());
        assert!(foreign.parse::<ItemId>().is_err());
    }
}
