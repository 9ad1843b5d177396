//! Tests of a conversation on a wide and on a narrow terminal, and as Markdown.

use angelia_core::model::{Failure, FailureKind, ToolCall, ToolClass, ToolResult, TurnId};
use angelia_frontends::event_json::FailureJson;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;

const ID: &str = "0193a2b4-c1d2-7000-8000-000000000000";

fn session() -> SessionResource {
    serde_json::from_value(json!({
        "id": ID, "title": "Fix the parser", "profile": "default", "executor": "claude",
        "mode": "agent", "model": "sonnet", "cwd": "/home/u/project", "permissions": "ask",
        "native_session_id": "native-1", "forked_from": null, "name": "parser", "source": "terminal",
        "first_words": null, "short_id": "0193a2b4",
        "created_at": "2026-11-17T03:00:00Z", "updated_at": "2026-11-17T03:01:00Z",
    }))
    .unwrap()
}

fn turn(input: &str, status: &str, text: Option<&str>, finished: Option<&str>) -> TurnResource {
    serde_json::from_value(json!({
        "id": ID, "session_id": ID, "status": status, "created_at": "2026-11-17T03:00:00Z",
        "finished_at": finished, "input": [{"type": "text", "text": input}], "text": text,
        "reason": null, "usage": {"input_tokens": 40, "output_tokens": 25, "cache_read_tokens": 960,
        "cache_write_tokens": 0, "cost_usd": 0.0009}, "failure": null, "resumes_at": null,
    }))
    .unwrap()
}

fn events() -> Vec<TurnEvent> {
    let call = |id: &str, title: &str| {
        EventKind::ToolCall(ToolCall {
            id: ToolId::new(id),
            name: "Bash".into(),
            class: ToolClass::Execute,
            input: serde_json::value::RawValue::NULL.to_owned().into(),
            title: title.into(),
            parent: None,
        })
    };
    let result = |id: &str, ok| EventKind::ToolResult(ToolResult::new(ToolId::new(id), ok, "…"));
    let block = |channel, text: &str| EventKind::Block { block: 0, channel, text: text.into() };
    let kinds = vec![
        block(TextChannel::Reasoning, "hidden thoughts"),
        block(TextChannel::Answer, "I look at the tests first."),
        call("a", "cargo test --workspace --all-features -- --nocapture parser::tests::deep"),
        call("b", "rm `x`\nsecond line"),
        result("a", true),
        result("b", false),
        block(TextChannel::Answer, "Done:\n\n```rust\nfn main() {}\n```\n"),
    ];
    let id: Uuid = ID.parse().unwrap();
    let event = |(seq, kind)| TurnEvent {
        turn: TurnId::from_uuid(id),
        session: SessionId::from_uuid(id),
        seq,
        at: Timestamp::UNIX_EPOCH,
        kind,
    };
    (1..).zip(kinds).map(event).collect()
}

fn transcript() -> Transcript {
    let first =
        turn("Fix the parser.\nIt is slow.", "completed", None, Some("2026-11-17T03:00:12Z"));
    let mut failed = turn("again", "failed", Some(""), Some("2026-11-17T03:00:01Z"));
    failed.failure = Some(FailureJson(Failure::new(FailureKind::Auth, "not logged in")));
    failed.usage = None;
    let mut running = turn("and now?", "running", None, None);
    running.usage = None;
    let turns = [(first, events()), (failed, Vec::new()), (running, Vec::new())];
    let turns = turns
        .into_iter()
        .map(|(turn, events)| TranscriptTurn { steps: steps(&events, &turn), turn });
    Transcript { session: session(), turns: turns.collect() }
}

#[test]
fn a_conversation_is_readable() {
    let render = |view: &View| transcript().render(view, &TimeZone::UTC);
    for width in [80, 40] {
        let view = View { width, has_colour: false, is_terminal: true };
        insta::assert_snapshot!(format!("transcript_{width}"), render(&view));
    }
    insta::assert_snapshot!("transcript_pipe", render(&View::PLAIN));
    let view = View { width: 80, has_colour: true, is_terminal: true };
    insta::assert_snapshot!("transcript_colour", render(&view).replace('\x1b', "␛"));
}

#[test]
fn a_conversation_is_markdown() {
    insta::assert_snapshot!("transcript_markdown", transcript().markdown());
}
