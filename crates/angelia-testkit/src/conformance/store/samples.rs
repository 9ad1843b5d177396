//! Sample records: plain ones, and ones in which every field has an awkward value.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    model::{
        AgentStart, Approval, ApprovalId, ApprovalKind, Billing, Budgets, CallerTool,
        CompactionSettings, Content, ContextWindow, EventKind, Failure, FailureKind,
        HistoryMessage, MemoryUse, MessagePart, Mode, NativeSessionId, NativeSettings, Notice,
        NoticeLevel, Outcome, PermissionLevel, Permissions, Plan, PlanItem, PlanStatus, Question,
        QuestionOption, RawJson, ReasoningEffort, Resolution, ReviewPlan, Role, SandboxMode, Seq,
        SessionId, SessionRecord, SessionSource, SessionSpec, SummaryFailurePolicy, SystemPrompt,
        TextChannel, ToolCall, ToolClass, ToolId, ToolResult, ToolSet, TurnEvent, TurnId,
        TurnOptions, TurnOrigin, TurnRecord, TurnState, TurnStatus, TurnTimeouts, Usage, Verdict,
    },
    ports::{ClaimOutcome, Lease, Store},
};
use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

/// Unusual spacing, key order, escapes, numbers and scripts that reserializing would change.
pub const ODD_JSON: &str = "{ \"z\" :1.50,\n\t\"a\":[ ],\"big\":123456789012345678901234567890,\
    \"dup\":1,\"dup\":2,\"esc\":\"\\u00e9\\ud83d\\ude00\\/\",\"text\":\"héllo → 世界 👩‍💻\" }";

const UNUSUAL_TEXT: &str =
    "quote \" backslash \\ newline \n tab \t nul \0 bell \u{7} 世界 👩‍💻 \u{2028}";

pub fn raw_json(text: &str) -> RawJson {
    RawValue::from_string(text.to_owned()).unwrap().into()
}

/// Returns a time with nanoseconds; a larger argument gives a later time.
pub fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + seconds, 123_456_789).unwrap()
}

/// Returns a UUID that sorts after all earlier ones.
pub fn fresh_uuid() -> Uuid {
    Uuid::now_v7()
}

pub fn plain_session() -> SessionRecord {
    SessionRecord {
        id: SessionId::from_uuid(fresh_uuid()),
        title: None,
        source: None,
        created_at: timestamp(0),
        updated_at: timestamp(0),
        spec: SessionSpec::new("fake", "/project"),
        native: None,
        forked_from: None,
        forked_after: None,
        revision: 0,
    }
}

pub fn full_session() -> SessionRecord {
    SessionRecord {
        id: SessionId::from_uuid(fresh_uuid()),
        title: Some(UNUSUAL_TEXT.into()),
        source: Some(SessionSource::Key("CI: nightly".into())),
        created_at: timestamp(1),
        updated_at: timestamp(2),
        spec: full_spec(),
        native: Some(NativeSessionId::new("native → 1")),
        forked_from: Some(SessionId::from_uuid(fresh_uuid())),
        forked_after: Some(TurnId::from_uuid(fresh_uuid())),
        revision: 7,
    }
}

pub fn full_spec() -> SessionSpec {
    SessionSpec {
        profile: "careful".into(),
        executor: "fake".into(),
        mode: Mode::Model,
        model: Some("large".into()),
        cwd: not_unicode(),
        trust: true,
        system: SystemPrompt::Replace(UNUSUAL_TEXT.into()),
        history: history(),
        history_until: Some(TurnId::from_uuid(uuid::Uuid::from_u128(77))),
        caller_tools: vec![CallerTool {
            name: "look_up".into(),
            description: UNUSUAL_TEXT.into(),
            input_schema: raw_json(ODD_JSON),
        }],
        output_schema: Some(raw_json(ODD_JSON)),
        permissions: Permissions {
            level: PermissionLevel::Unattended,
            allowed: ["Read", "Bash(git *)"].map(|text| text.parse().unwrap()).into(),
            disallowed: ["Bash(rm *)", "mcp__x__*"].map(|text| text.parse().unwrap()).into(),
        },
        tools: ToolSet::List(vec!["Read".into(), "Bash".into()]),
        mcp_servers: BTreeMap::from([("docs".into(), raw_json(ODD_JSON))]),
        env: BTreeMap::from([("KEY".into(), UNUSUAL_TEXT.into()), ("EMPTY".into(), "".into())]),
        env_pass: vec!["LC_*".into(), "EDITOR".into()],
        binary: Some("/opt/bin/agent".into()),
        command: vec!["agent".into(), "--acp".into()],
        billing: Billing::Subscription,
        stable_prompt: false,
        resume: false,
        warm: 3,
        timeouts: TurnTimeouts {
            timeout: Duration::new(1, 1),
            first_event: Duration::new(2, 2),
            silence: Duration::new(3, 3),
            post_tool_quiet: Duration::new(4, 4),
            tool: Duration::new(5, 5),
            retry: Duration::new(6, 6),
            compaction: Duration::new(7, 7),
            background: Duration::new(8, 8),
            approval: Duration::new(9, 9),
            caller_tool: Duration::new(10, 10),
        },
        budgets: Budgets {
            time: Some(Duration::new(61, 5)),
            tools: Some(20),
            cost_usd: Some(0.1),
            resumes: 2,
        },
        native: NativeSettings {
            fallback: vec!["spare/m".into(), "last/of/all".into()],
            max_iterations: 3,
            max_output_tokens: Some(1_000),
            reasoning: Some(ReasoningEffort::Max),
            sandbox: SandboxMode::Off,
            sandbox_read: vec![not_unicode()],
            sandbox_write: vec!["/cache".into()],
            network: true,
            memory: MemoryUse::FromAny,
            reviews: Some(SessionId::from_uuid(Uuid::from_u128(9))),
            compaction: CompactionSettings {
                at_permille: 1,
                protect_first_n: 9,
                on_summary_failure: SummaryFailurePolicy::Truncate,
            },
        },
        review: Some(ReviewPlan {
            turns: 3,
            tool_calls: 4,
            iterations: 5,
            reviewer: Some(Box::new(SessionSpec::new("reviewer", "/elsewhere"))),
        }),
        fallback: Some(Box::new(SessionSpec::new("other", "/elsewhere"))),
    }
}

fn not_unicode() -> PathBuf {
    #[cfg(unix)]
    let name: OsString = std::os::unix::ffi::OsStringExt::from_vec(b"/project/\xff\xfe".to_vec());
    #[cfg(not(unix))]
    let name = OsString::from("C:\\project");
    name.into()
}

fn history() -> Vec<HistoryMessage> {
    vec![
        HistoryMessage {
            role: Role::User,
            parts: every_content().into_iter().map(MessagePart::Content).collect(),
        },
        HistoryMessage {
            role: Role::Assistant,
            parts: vec![
                MessagePart::Thinking { text: UNUSUAL_TEXT.into(), signature: Some("c2ln".into()) },
                MessagePart::Thinking { text: "unsigned".into(), signature: None },
                MessagePart::ToolUse {
                    id: ToolId::new("t1"),
                    name: "look_up".into(),
                    input: raw_json(ODD_JSON),
                },
            ],
        },
        HistoryMessage {
            role: Role::User,
            parts: vec![MessagePart::ToolResult {
                id: ToolId::new("t1"),
                ok: false,
                content: every_content(),
            }],
        },
    ]
}

/// Returns a text, and an image that contains every byte value.
pub fn every_content() -> Vec<Content> {
    let bytes: Vec<u8> = (0..=255).collect();
    vec![
        Content::text(UNUSUAL_TEXT),
        Content::Image { media_type: "image/png".into(), data: bytes.into() },
        Content::text(""),
    ]
}

pub fn plain_turn(session: SessionId) -> TurnRecord {
    TurnRecord {
        id: TurnId::from_uuid(fresh_uuid()),
        session,
        input: vec![Content::text("hello")],
        options: TurnOptions { can_ask: true, ..TurnOptions::new(TurnOrigin::Owner) },
        created_at: timestamp(3),
        state: TurnState::Queued,
    }
}

pub fn event(turn: &TurnRecord, seq: Seq, kind: EventKind) -> TurnEvent {
    TurnEvent {
        turn: turn.id,
        session: turn.session,
        seq,
        at: timestamp(10 + i64::try_from(seq).unwrap()),
        kind,
    }
}

pub fn notice(text: &str) -> EventKind {
    EventKind::Notice(Notice::new(NoticeLevel::Info, "test", text))
}

pub fn finished() -> EventKind {
    EventKind::Finished(outcome(TurnStatus::Completed))
}

pub fn outcome(status: TurnStatus) -> Outcome {
    Outcome { status, text: UNUSUAL_TEXT.into(), reason: "end_turn".into(), usage: full_usage() }
}

/// Returns one of each status, with every field of a failure set.
pub fn every_status() -> Vec<TurnStatus> {
    let mut statuses = vec![
        TurnStatus::Completed,
        TurnStatus::Partial,
        TurnStatus::Interrupted,
        TurnStatus::Parked { resumes_at: timestamp(99) },
    ];
    statuses.extend(FailureKind::ALL.map(|kind| TurnStatus::Failed(Failure::new(kind, "broke"))));
    let mut failure = Failure::new(FailureKind::RateLimited, UNUSUAL_TEXT).with_hint("wait → 世界");
    failure.retry_after = Some(Duration::from_millis(1500));
    statuses.push(TurnStatus::Failed(failure));
    statuses
}

fn full_usage() -> Usage {
    Usage {
        input_tokens: 1,
        output_tokens: u64::MAX,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        // A number whose last bit an imprecise parser gets wrong.
        cost_usd: Some(1.123_456_789_012_345_7e-7),
        lane: Some("subscription".into()),
        prefix_sha256: Some("00ff".into()),
        context: Some(ContextWindow { used: 5, size: u64::MAX }),
    }
}

/// Returns one event of each stored kind with every field set, then again without the optional
/// fields.
pub fn every_event() -> Vec<EventKind> {
    let mut events = full_events();
    events.extend(bare_events());
    events
}

fn full_events() -> Vec<EventKind> {
    vec![
        EventKind::Started(AgentStart {
            profile: "careful".into(),
            executor: "fake".into(),
            model: Some("large".into()),
            native_session_id: Some(NativeSessionId::new("n")),
            resumed: true,
            warm: true,
        }),
        EventKind::Block { block: 3, channel: TextChannel::Reasoning, text: UNUSUAL_TEXT.into() },
        EventKind::ToolCall(ToolCall {
            id: ToolId::new("t1"),
            name: "Bash".into(),
            class: ToolClass::Execute,
            input: raw_json(ODD_JSON),
            title: UNUSUAL_TEXT.into(),
            parent: Some(ToolId::new("t0")),
        }),
        EventKind::ToolResult(ToolResult::new(ToolId::new("t1"), false, UNUSUAL_TEXT)),
        EventKind::Plan(Plan {
            items: [PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed]
                .map(|status| PlanItem { text: UNUSUAL_TEXT.into(), status })
                .into(),
        }),
        EventKind::Approval(approval(ApprovalKind::Question(questions()))),
        EventKind::Resolved(Resolution {
            id: ApprovalId::from_uuid(Uuid::from_u128(5)),
            verdict: Verdict::Session,
            by: "owner".into(),
        }),
        EventKind::Usage(full_usage()),
        EventKind::Notice(Notice::new(NoticeLevel::Warning, "retrying", UNUSUAL_TEXT)),
        EventKind::Native { name: "odd".into(), raw: raw_json(ODD_JSON) },
    ]
}

fn bare_events() -> Vec<EventKind> {
    let mut events = vec![
        EventKind::Started(AgentStart {
            profile: "default".into(),
            executor: "fake".into(),
            model: None,
            native_session_id: None,
            resumed: false,
            warm: false,
        }),
        EventKind::Block { block: u32::MAX, channel: TextChannel::Answer, text: "".into() },
        EventKind::ToolResult(ToolResult::new(ToolId::new(""), true, "")),
        EventKind::Plan(Plan { items: Vec::new() }),
        EventKind::Approval(Approval { tool_id: None, ..approval(ApprovalKind::Tool) }),
        EventKind::Usage(Usage::default()),
    ];
    for class in [ToolClass::Read, ToolClass::Edit, ToolClass::Other] {
        events.push(EventKind::ToolCall(ToolCall {
            id: ToolId::new("t2"),
            name: "Other".into(),
            class,
            input: raw_json("null"),
            title: "t".into(),
            parent: None,
        }));
    }
    for verdict in Verdict::ALL {
        events.push(EventKind::Resolved(Resolution {
            id: ApprovalId::from_uuid(Uuid::max()),
            verdict,
            by: "rule".into(),
        }));
    }
    events
}

pub fn approval(kind: ApprovalKind) -> Approval {
    Approval {
        id: ApprovalId::from_uuid(Uuid::from_u128(5)),
        kind,
        tool_id: Some(ToolId::new("t1")),
        tool_name: UNUSUAL_TEXT.into(),
        title: UNUSUAL_TEXT.into(),
        detail: "in /project".into(),
        diff: None,
        rules: vec!["Bash(make)".into(), "Bash(make *)".into()],
        expires_at: timestamp(9),
    }
}

pub fn questions() -> Arc<[Question]> {
    [true, false]
        .map(|multiple| Question {
            text: UNUSUAL_TEXT.into(),
            header: "Colour".into(),
            options: vec![QuestionOption { label: "red".into(), description: UNUSUAL_TEXT.into() }],
            multiple,
        })
        .into()
}

/// Stores a session and acquires its lease.
pub async fn owned_session(store: &dyn Store) -> Lease {
    let session = plain_session();
    store.create_session(&session).await.unwrap();
    store.acquire_lease(session.id).await.unwrap()
}

/// Stores a turn and waits until it is committed.
pub async fn create_turn(store: &dyn Store, lease: &Lease, turn: &TurnRecord) {
    let created = store.create_turn(lease, &turn.clone().into()).await;
    assert_eq!(created.unwrap(), ClaimOutcome::New);
}

/// Stores a turn in a new, owned session.
pub async fn stored_turn(store: &dyn Store) -> (Lease, TurnRecord) {
    let lease = owned_session(store).await;
    let turn = plain_turn(lease.session);
    create_turn(store, &lease, &turn).await;
    (lease, turn)
}

/// Asserts equality of the debug forms, which show every byte, because `RawJson` does not implement
/// equality.
pub fn assert_same_debug(left: &impl std::fmt::Debug, right: &impl std::fmt::Debug) {
    assert_eq!(format!("{left:#?}"), format!("{right:#?}"));
}
