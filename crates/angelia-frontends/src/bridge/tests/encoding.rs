//! Tests of the encoding of turn events as run events.

use std::sync::Arc;

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, ContextWindow, EventKind, Failure, FailureKind,
    Notice, NoticeLevel, Outcome, Question, QuestionOption, RawJson, Resolution, TextChannel,
    ToolCall, ToolClass, ToolId, ToolResult, TurnStatus, Usage, Verdict,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

use crate::bridge::{DeltaMode, RunEncoder, RunInfo, schema};

fn delta(block: u32, text: &str) -> EventKind {
    let (channel, text) = (TextChannel::Answer, text.into());
    EventKind::Delta { block, channel, text }
}

fn block(block: u32, text: &str) -> EventKind {
    let (channel, text) = (TextChannel::Answer, text.into());
    EventKind::Block { block, channel, text }
}

fn call(id: &str, parent: Option<&str>) -> EventKind {
    let input: RawJson = RawValue::from_string("{\"a\":\n[1,\r\n2]}".to_owned()).unwrap().into();
    EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        name: "Bash".into(),
        class: ToolClass::Execute,
        input,
        title: "ls".into(),
        parent: parent.map(ToolId::new),
    })
}

fn result(id: &str) -> EventKind {
    EventKind::ToolResult(ToolResult::new(ToolId::new(id), true, "line\nline"))
}

fn end(status: TurnStatus, text: &str) -> EventKind {
    EventKind::Finished(Outcome {
        status,
        text: text.into(),
        reason: "end_turn".into(),
        usage: Usage {
            cost_usd: Some(f64::NAN),
            context: ContextWindow::from_reported(7, 1000),
            ..Usage::default()
        },
    })
}

fn about() -> RunInfo {
    RunInfo {
        turn_id: "t".into(),
        angelia_session_id: "a".into(),
        profile: "default".into(),
        executor: "puppet".into(),
        model: None,
        cwd: std::path::Path::new("/c").into(),
        repeats: false,
    }
}

/// Returns the lines that a host gets for these events.
fn encode_all(streaming: DeltaMode, events: &[EventKind]) -> Vec<Value> {
    let mut encoder = RunEncoder::new("r".into(), "s".into(), &Arc::from("ask"), streaming);
    encoder.run_started(about());
    let mut out = Vec::new();
    for event in events {
        encoder.encode_event(event);
        while encoder.write(&mut out) {}
    }
    assert!(out.ends_with(b"\n"));
    let lines = out.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Shortens each event to its type, index and text.
fn summarize(events: &[Value]) -> Vec<String> {
    let short = |event: &Value| {
        let kind = event["type"].as_str().unwrap().replace("assistant_", "");
        let text = event["text"].as_str().map(|text| format!(" {text}"));
        let index = event["index"].as_u64().map(|index| format!(" {index}"));
        format!("{kind}{}{}", index.unwrap_or_default(), text.unwrap_or_default())
    };
    events.iter().map(short).collect()
}

#[test]
fn native_deltas_are_passed_on_and_completed_by_the_block() {
    let events = [
        delta(4, "Hel"),
        delta(4, ""),
        delta(4, "lo"),
        block(4, "Hello!"),
        block(6, "no deltas"),
        end(TurnStatus::Completed, "no deltas"),
    ];
    assert_eq!(
        summarize(&encode_all(DeltaMode::Native, &events)),
        [
            "run_started",
            "delta 0 Hel",
            "delta 0 lo",
            "delta 0 !",
            "delta_end 0",
            "message 0 Hello!",
            "delta 1 no deltas",
            "delta_end 1",
            "message 1 no deltas",
            "final"
        ]
    );
}

#[test]
fn what_an_agent_takes_back_ends_empty_and_is_in_no_list() {
    let events = [
        delta(0, "Hel"),
        block(0, ""),
        block(1, "Again"),
        block(1, "Again"),
        block(2, ""),
        end(TurnStatus::Completed, "Again"),
    ];
    let told = encode_all(DeltaMode::Native, &events);
    assert_eq!(
        summarize(&told),
        [
            "run_started",
            "delta 0 Hel",
            "delta_end 0",
            "message 0 ",
            "delta 1 Again",
            "delta_end 1",
            "message 1 Again",
            "final"
        ]
    );
    let messages = told.last().unwrap()["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{messages:?}");
}

#[test]
fn finished_texts_are_cut() {
    let events = [delta(0, "ab"), block(0, "abcde"), end(TurnStatus::Completed, "abcde")];
    assert_eq!(
        summarize(&encode_all(DeltaMode::Synthetic(2), &events)),
        [
            "run_started",
            "delta 0 ab",
            "delta 0 cd",
            "delta 0 e",
            "delta_end 0",
            "message 0 abcde",
            "final"
        ]
    );
    assert_eq!(
        summarize(&encode_all(DeltaMode::Off, &events)),
        ["run_started", "message 0 abcde", "final"]
    );
}

#[test]
fn an_answer_that_no_event_told_is_told_at_the_end() {
    let events = [end(TurnStatus::Completed, "all")];
    assert_eq!(
        summarize(&encode_all(DeltaMode::Native, &events)),
        ["run_started", "delta 0 all", "delta_end 0", "message 0 all", "final"]
    );
}

#[test]
fn the_end_tells_what_was_said_and_done() {
    let events = [
        block(0, "First"),
        call("1", None),
        call("2", None),
        call("3", Some("1")),
        result("3"),
        result("1"),
        result("2"),
        block(1, "Then"),
        end(TurnStatus::Partial, "Then"),
    ];
    let told = encode_all(DeltaMode::Off, &events);
    let end = told.last().unwrap();
    assert_eq!(end["api_calls"], 2);
    assert_eq!((&end["partial"], &end["completed"]), (&json!(true), &json!(false)));
    assert_eq!(end["usage"]["cost_usd"], Value::Null, "no number is no number");
    assert!(end["usage"].get("context").is_none(), "{end}");
    let input = json!({"a": [1, 2]});
    assert_eq!(
        end["messages"],
        json!([
            {"role": "user", "content": "ask"},
            {"role": "assistant", "content": "First", "tool_calls": [
                {"tool_id": "1", "name": "Bash", "input": input},
                {"tool_id": "2", "name": "Bash", "input": input}]},
            {"role": "tool", "tool_id": "1", "ok": true, "content": "line\nline"},
            {"role": "tool", "tool_id": "2", "ok": true, "content": "line\nline"},
            {"role": "assistant", "content": "Then"},
        ])
    );
}

fn every_event() -> Vec<EventKind> {
    let question = Question {
        text: "Which?".into(),
        header: "h".into(),
        options: vec![QuestionOption { label: "this".into(), description: "d".into() }],
        multiple: false,
    };
    let approval = |kind| Approval {
        id: ApprovalId::from_uuid(uuid::Uuid::nil()),
        kind,
        tool_id: Some(ToolId::new("1")),
        tool_name: "Bash".into(),
        title: "t".into(),
        detail: "d".into(),
        diff: None,
        rules: Vec::new(),
        expires_at: Timestamp::UNIX_EPOCH,
    };
    vec![
        EventKind::Started(AgentStart {
            profile: "p".into(),
            executor: "e".into(),
            model: None,
            native_session_id: None,
            resumed: false,
            warm: false,
        }),
        delta(0, "a"),
        block(0, "ab"),
        call("1", None),
        EventKind::Approval(approval(ApprovalKind::Tool)),
        EventKind::Approval(approval(ApprovalKind::Question([question].into()))),
        EventKind::Resolved(Resolution {
            id: ApprovalId::from_uuid(uuid::Uuid::nil()),
            verdict: Verdict::Deny,
            by: "owner".into(),
        }),
        EventKind::Notice(Notice::new(NoticeLevel::Info, "code", "text")),
        result("1"),
        block(2, "end"),
    ]
}

#[test]
fn everything_fits_the_schema() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let failure = Failure::new(FailureKind::Auth, "no login").with_hint("log in");
    let statuses = [
        TurnStatus::Completed,
        TurnStatus::Partial,
        TurnStatus::Interrupted,
        TurnStatus::Failed(failure),
        TurnStatus::Parked { resumes_at: Timestamp::UNIX_EPOCH },
    ];
    for status in statuses {
        for streaming in [DeltaMode::Native, DeltaMode::Synthetic(1), DeltaMode::Off] {
            let mut events = every_event();
            events.push(end(status.clone(), "end"));
            for event in encode_all(streaming, &events) {
                assert!(validator.is_valid(&event), "{event}");
            }
        }
    }
}

proptest! {
    /// For any turn: the deltas of a message add up to its text, `assistant_delta_end` comes right
    /// before `assistant_message`, and there is exactly one `final`, which is last.
    #[test]
    fn any_turn_keeps_the_order(
        steps in proptest::collection::vec((0..6_u8, 0..4_u32, ".{0,6}"), 0..40),
        size in 0..4_usize,
    ) {
        let streaming = match size {
            0 => DeltaMode::Off,
            1 => DeltaMode::Native,
            more => DeltaMode::Synthetic(more),
        };
        let mut events: Vec<EventKind> = steps
            .iter()
            .map(|(kind, number, text)| match kind {
                0 | 1 => delta(*number, text),
                2 | 3 => block(*number, text),
                4 => call(&number.to_string(), None),
                _ => result(&number.to_string()),
            })
            .collect();
        events.push(end(TurnStatus::Completed, "end"));
        let told = encode_all(streaming, &events);
        let kinds: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
        prop_assert_eq!(kinds[0], "run_started");
        prop_assert_eq!(kinds.iter().position(|kind| *kind == "final"), Some(kinds.len() - 1));
        for index in 0..5 {
            let of_it: Vec<&Value> = told.iter().filter(|event| event["index"] == index).collect();
            let mut shape: Vec<&str> = of_it.iter().map(|event| event["type"].as_str().unwrap()).collect();
            shape.dedup();
            let ends = shape.iter().filter(|kind| **kind == "assistant_delta_end").count();
            prop_assert!(ends <= 1, "{:?}", shape);
            if let Some(at) = shape.iter().position(|kind| *kind == "assistant_delta_end") {
                prop_assert_eq!(shape.get(at + 1), Some(&"assistant_message"));
            }
            if matches!(streaming, DeltaMode::Synthetic(_)) {
                let pieces = of_it.iter().filter(|event| event["type"] == "assistant_delta");
                let pieces: String = pieces.map(|event| event["text"].as_str().unwrap()).collect();
                let first = of_it.iter().find(|event| event["type"] == "assistant_message");
                prop_assert_eq!(first.map_or("", |event| event["text"].as_str().unwrap()), pieces);
            }
            if streaming == DeltaMode::Off {
                prop_assert!(!shape.contains(&"assistant_delta"));
            }
        }
    }
}
