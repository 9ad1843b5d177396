//! The exact bytes of every update. A change here is a change for every editor.

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, Content, EventKind, NativeSessionId, Notice,
    NoticeLevel, Outcome, Plan, PlanItem, PlanStatus, TextChannel, ToolCall, ToolClass, ToolId,
    TurnStatus, Usage, Verdict,
};
use uuid::Uuid;

use crate::event_builders::{
    block, call, delta, encode_all, encoder, parse_updates, raw, resolved, result, turn,
};

#[test]
fn every_kind_of_event_has_its_golden_lines() {
    use TextChannel::{Answer, Reasoning};
    let edit = r#"{"file_path":"a.rs","old_string":"x","new_string":"y"}"#;
    let plan = [
        ("look", PlanStatus::Completed),
        ("do", PlanStatus::InProgress),
        ("check", PlanStatus::Pending),
    ];
    let item = |(text, status): (&str, PlanStatus)| PlanItem { text: text.into(), status };
    let kinds = [
        EventKind::Started(AgentStart {
            profile: "default".into(),
            executor: "x".into(),
            model: Some("m".into()),
            native_session_id: Some(NativeSessionId::new("n")),
            resumed: false,
            warm: false,
        }),
        delta(0, Reasoning, "hm"),
        block(0, Reasoning, "hm"),
        delta(1, Answer, "Hel"),
        delta(1, Answer, "lo \"you\"\n"),
        block(1, Answer, "Hello \"you\"\n and more"),
        block(2, Answer, "at once"),
        call("read", ToolClass::Read, "{\"file_path\":\n\"/w/b\",\"offset\":3}"),
        result("read", true, "1\n```\n"),
        call("edit", ToolClass::Edit, edit),
        EventKind::Approval(Approval {
            id: ApprovalId::from_uuid(Uuid::from_u128(3)),
            kind: ApprovalKind::Tool,
            tool_id: Some(ToolId::new("edit")),
            tool_name: "Edit".into(),
            title: "edit a.rs".into(),
            detail: "one line".into(),
            diff: None,
            rules: Vec::new(),
            expires_at: "2026-11-16T12:00:00Z".parse().unwrap(),
        }),
        resolved(3, Verdict::Once),
        result("edit", true, "done"),
        call("failed", ToolClass::Edit, edit),
        result("failed", false, "no such text"),
        EventKind::ToolCall(ToolCall {
            id: ToolId::new("inner"),
            name: "Bash".into(),
            class: ToolClass::Execute,
            input: raw(r#"{"command":"ls"}"#),
            title: "ls".into(),
            parent: Some(ToolId::new("outer")),
        }),
        result("inner", true, ""),
        EventKind::Plan(Plan { items: plan.map(item).into() }),
        EventKind::Usage(Usage::default()),
        EventKind::Notice(Notice::new(NoticeLevel::Warning, "declined", "not allowed")),
        EventKind::Native { name: "odd".into(), raw: raw("{}") },
        EventKind::Finished(Outcome {
            status: TurnStatus::Completed,
            text: "at once".into(),
            reason: "end_turn".into(),
            usage: Usage::default(),
        }),
    ];
    let lines = encode_all(encoder(true), &kinds);
    parse_updates(&lines);
    insta::assert_snapshot!(lines);
    assert!(!encode_all(encoder(false), &kinds).contains("declined"));
}

#[test]
fn what_a_person_said_comes_back_in_blocks() {
    let mut out = Vec::new();
    let input = [
        Content::text("look"),
        Content::Image { media_type: "image/png".into(), data: b"\x89PNG"[..].into() },
    ];
    encoder(false).encode_input(turn(), &input, &mut out);
    let lines = String::from_utf8(out).unwrap();
    parse_updates(&lines);
    insta::assert_snapshot!(lines);
}

#[test]
fn a_block_that_turns_out_different_begins_anew() {
    let kinds = [
        delta(0, TextChannel::Answer, "The answ"),
        block(0, TextChannel::Answer, "Something else"),
    ];
    let words: String = parse_updates(&encode_all(encoder(false), &kinds))
        .iter()
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert!(words.starts_with("The answ\n\n[") && words.ends_with("Something else"), "{words}");
}
