//! The public JSON form of events: golden bytes of every kind, and decoding them again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, ContextWindow, EventKind, Failure, FailureKind,
    NativeSessionId, Notice, NoticeLevel, Outcome, Plan, PlanItem, PlanStatus, Question,
    QuestionOption, RawJson, Resolution, SessionId, TextChannel, ToolCall, ToolClass, ToolId,
    ToolResult, TurnEvent, TurnId, TurnStatus, Usage, Verdict,
};
use angelia_frontends::event_json::{event_type, read_event, write_event};
use angelia_testkit::any_event::any_event;
use uuid::Uuid;

fn raw(json: &str) -> RawJson {
    serde_json::from_str(json).unwrap()
}

fn usage() -> Usage {
    Usage {
        input_tokens: 12,
        output_tokens: 345,
        cache_read_tokens: 6789,
        cache_write_tokens: 10,
        cost_usd: Some(0.0125),
        lane: Some("subscription".into()),
        prefix_sha256: Some("ab12".into()),
        context: None,
    }
}

fn finished(status: TurnStatus) -> EventKind {
    EventKind::Finished(Outcome {
        status,
        text: "so far".into(),
        reason: "why".into(),
        usage: usage(),
    })
}

fn text(channel: TextChannel, whole: bool, text: &str) -> EventKind {
    let (block, text) = (3, text.into());
    if whole {
        EventKind::Block { block, channel, text }
    } else {
        EventKind::Delta { block, channel, text }
    }
}

fn approval(kind: ApprovalKind, tool_id: Option<ToolId>) -> EventKind {
    EventKind::Approval(Approval {
        id: ApprovalId::from_uuid(Uuid::from_u128(3)),
        kind,
        tool_id,
        tool_name: "shell".into(),
        title: "rm -rf build".into(),
        detail: "in /project".into(),
        diff: None,
        rules: Vec::new(),
        expires_at: "2026-11-16T12:00:00Z".parse().unwrap(),
    })
}

fn question() -> ApprovalKind {
    let option =
        |label: &str| QuestionOption { label: label.into(), description: "as described".into() };
    let question = Question {
        text: "Which colour?".into(),
        header: "Colour".into(),
        options: vec![option("red"), option("blue")],
        multiple: true,
    };
    ApprovalKind::Question(Arc::from([question]))
}

fn tool_call(class: ToolClass, parent: Option<ToolId>) -> EventKind {
    EventKind::ToolCall(ToolCall {
        id: ToolId::new("toolu_1"),
        name: "shell".into(),
        class,
        // Raw JSON is kept unchanged: order, spacing, escapes, numbers.
        input: raw(r#"{ "z":1.0, "a":"é\u0041\/", "big":12345678901234567890123 }"#),
        title: "rm -rf build".into(),
        parent,
    })
}

fn every_kind() -> Vec<EventKind> {
    let failure = Failure {
        kind: FailureKind::RateLimited,
        message: "too much".into(),
        hint: Some("wait".into()),
        retry_after: Some(Duration::from_millis(1500)),
    };
    let parked = TurnStatus::Parked { resumes_at: "2026-11-15T13:00:00Z".parse().unwrap() };
    let item = |status| PlanItem { text: "a step".into(), status };
    vec![
        EventKind::Started(AgentStart {
            profile: "default".into(),
            executor: "parrot".into(),
            model: Some("green".into()),
            native_session_id: Some(NativeSessionId::new("native-1")),
            resumed: true,
            warm: false,
        }),
        EventKind::Started(AgentStart {
            profile: "default".into(),
            executor: "parrot".into(),
            model: None,
            native_session_id: None,
            resumed: false,
            warm: true,
        }),
        text(TextChannel::Answer, false, "hé\"llo\n\u{1}\u{1F600}"),
        text(TextChannel::Reasoning, false, "hm"),
        text(TextChannel::Answer, true, "hello"),
        text(TextChannel::Reasoning, true, ""),
        tool_call(ToolClass::Execute, Some(ToolId::new("toolu_0"))),
        tool_call(ToolClass::Other, None),
        EventKind::ToolResult(ToolResult::new(ToolId::new("toolu_1"), false, "no such file")),
        EventKind::Plan(Plan {
            items: [PlanStatus::Completed, PlanStatus::InProgress, PlanStatus::Pending]
                .map(item)
                .into(),
        }),
        approval(ApprovalKind::Tool, Some(ToolId::new("toolu_1"))),
        approval(question(), None),
        EventKind::Resolved(Resolution {
            id: ApprovalId::from_uuid(Uuid::from_u128(3)),
            verdict: Verdict::Session,
            by: "owner".into(),
        }),
        EventKind::Usage(Usage {
            context: Some(ContextWindow { used: 7156, size: 200_000 }),
            ..usage()
        }),
        EventKind::Usage(Usage::default()),
        EventKind::Notice(Notice::new(NoticeLevel::Info, "compacting", "making room")),
        EventKind::Notice(Notice::new(NoticeLevel::Warning, "declined", "nobody there")),
        EventKind::Native {
            name: "system/status".into(),
            raw: raw("{\"type\":\"system\",\r\n \"x\" : [1,\n2]}"),
        },
        finished(TurnStatus::Completed),
        finished(TurnStatus::Partial),
        finished(TurnStatus::Interrupted),
        finished(TurnStatus::Failed(failure)),
        finished(parked),
    ]
}

fn events() -> Vec<TurnEvent> {
    let at = "2026-11-15T12:00:00.5Z".parse().unwrap();
    let number = |(index, kind)| TurnEvent {
        turn: TurnId::from_uuid(Uuid::from_u128(1)),
        session: SessionId::from_uuid(Uuid::from_u128(2)),
        seq: index as u64 + 1,
        at,
        kind,
    };
    every_kind().into_iter().enumerate().map(number).collect()
}

fn encode(event: &TurnEvent) -> String {
    let mut out = Vec::new();
    write_event(event, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn every_kind_of_event_has_its_golden_line() {
    let lines: Vec<_> = events().iter().map(encode).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn an_event_is_one_line_and_says_its_type() {
    for event in events() {
        let line = encode(&event);
        assert!(!line.contains(['\n', '\r']), "{line}");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["type"], event_type(&event.kind));
    }
}

#[test]
fn what_is_written_is_read_back_whole() {
    for event in events() {
        let line = encode(&event);
        let back = read_event(&line).unwrap();
        assert_eq!(encode(&back), line);
        assert_eq!(std::mem::discriminant(&back.kind), std::mem::discriminant(&event.kind));
    }
}

#[test]
fn what_a_newer_daemon_says_is_kept_as_native() {
    let ids = r#""turn_id":"00000000-0000-0000-0000-000000000001","session_id":"00000000-0000-0000-0000-000000000002""#;
    let head = format!(r#"{{"seq":7,{ids},"time":"2026-11-15T12:00:00Z""#);

    let unknown = format!(r#"{head},"type":"dream","about":["sheep"]}}"#);
    let event = read_event(&unknown).unwrap();
    let EventKind::Native { name, raw } = &event.kind else {
        panic!("{event:?}");
    };
    assert_eq!((&**name, raw.get()), ("dream", unknown.as_str()));
    assert_eq!(event.seq, 7);

    let more = format!(r#"{head},"type":"text.delta","block":1,"text":"hi","mood":"good"}}"#);
    let event = read_event(&more).unwrap();
    assert!(matches!(event.kind, EventKind::Delta { block: 1, .. }));

    let other_shape = format!(r#"{head},"type":"text.delta","blocks":[]}}"#);
    let event = read_event(&other_shape).unwrap();
    assert!(matches!(event.kind, EventKind::Native { .. }));

    for nonsense in ["", "null", "[]", "{}", r#"{"seq":1}"#, "\u{0}"] {
        assert!(read_event(nonsense).is_err(), "{nonsense:?}");
    }
}

proptest::proptest! {
    #[test]
    fn any_event_is_read_back_as_it_was(kind in any_event()) {
        let event = TurnEvent { kind, ..events().swap_remove(0) };
        let line = encode(&event);
        proptest::prop_assert_eq!(format!("{:?}", read_event(&line).unwrap()), format!("{event:?}"));
        proptest::prop_assert_eq!(encode(&read_event(&line).unwrap()), line);
    }
}

/// Fields that may be missing, `null` or of an unknown value, as read by every version so far.
#[test]
fn what_an_older_daemon_leaves_out_is_filled_in() {
    let head = r#"{"seq":7,"turn_id":"00000000-0000-0000-0000-000000000001","session_id":"00000000-0000-0000-0000-000000000002","time":"2026-11-15T12:00:00Z","type":"#;
    let approval = r#""title":"t","approval_id":"00000000-0000-0000-0000-000000000003","expires_at":"2026-11-15T12:00:00Z""#;
    let bodies = [
        r#""turn.started","profile":"p","executor":"e""#.to_owned(),
        r#""turn.started","profile":"p","executor":"e","model":null,"native_session_id":null"#.to_owned(),
        r#""turn.started","profile":"p""#.to_owned(),
        r#""tool.started","tool_id":"1","name":"n","input":{ "a" : 1 }"#.to_owned(),
        r#""tool.started","tool_id":"1","name":"n","input":null,"class":"dream","parent_tool_id":null"#.to_owned(),
        r#""tool.started","tool_id":"1","name":"n","input":1,"class":7"#.to_owned(),
        r#""tool.finished","tool_id":"1","ok":true"#.to_owned(),
        r#""plan","items":[{"text":"a"},{"text":"b","status":"dream"},{"text":"c","status":"completed"}]"#.to_owned(),
        format!(r#""approval.requested","kind":"tool",{approval}"#),
        format!(r#""approval.requested","kind":"tool",{approval},"questions":[{{"text":"q"}}],"tool_id":null"#),
        format!(r#""approval.requested","kind":"question",{approval}"#),
        format!(r#""approval.requested","kind":"question",{approval},"questions":[{{"text":"q","options":[{{"label":"l"}}]}}]"#),
        format!(r#""approval.requested","kind":"dream",{approval}"#),
        r#""approval.requested","kind":"tool","title":"t","approval_id":"x","expires_at":"2026-11-15T12:00:00Z""#.to_owned(),
        r#""approval.resolved","approval_id":"00000000-0000-0000-0000-000000000003","verdict":"deny""#.to_owned(),
        r#""approval.resolved","approval_id":"00000000-0000-0000-0000-000000000003","verdict":"dream""#.to_owned(),
        r#""usage""#.to_owned(),
        r#""usage","input_tokens":3,"cost_usd":null,"lane":null,"context":null"#.to_owned(),
        r#""notice","text":"n""#.to_owned(),
        r#""notice","text":"n","level":"info","code":"c""#.to_owned(),
        r#""notice","text":"n","level":"dream""#.to_owned(),
        r#""native","name":"n","raw":[ 1 ]"#.to_owned(),
        r#""native","name":"n""#.to_owned(),
        r#""turn.finished","status":"completed""#.to_owned(),
        r#""turn.finished","status":"failed""#.to_owned(),
        r#""turn.finished","status":"failed","failure":{}"#.to_owned(),
        r#""turn.finished","status":"failed","failure":{"kind":"dream","message":"m","hint":null,"retry_after":3}"#.to_owned(),
        r#""turn.finished","status":"parked""#.to_owned(),
        r#""turn.finished","status":"parked","resumes_at":"2026-11-15T12:00:00Z","usage":{"input_tokens":1}"#.to_owned(),
        r#""turn.finished","status":"dream""#.to_owned(),
    ];
    let lines = bodies.map(|body| {
        let event = read_event(&format!("{head}{body}}}")).unwrap();
        format!("{body}\n  {:?}\n", event.kind)
    });
    insta::assert_snapshot!(lines.concat());
}
