//! A proptest strategy for events of every kind. All values survive both the disk and the public
//! JSON form: times in whole microseconds, waits in whole seconds, agent JSON on one line.

use std::{sync::Arc, time::Duration};

use angelia_core::model::{
    AgentStart, Approval, ApprovalId, ApprovalKind, ContextWindow, EventKind, Failure, FailureKind,
    NativeSessionId, Notice, NoticeLevel, Outcome, Plan, PlanItem, PlanStatus, Question,
    QuestionOption, RawJson, Resolution, TextChannel, ToolCall, ToolClass, ToolId, ToolResult,
    TurnStatus, Usage, Verdict,
};
use jiff::Timestamp;
use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::select,
};
use serde_json::value::RawValue;
use uuid::Uuid;

pub fn any_event() -> BoxedStrategy<EventKind> {
    let block = (any::<u32>(), any_channel(), any_text());
    prop_oneof![
        any_start().prop_map(EventKind::Started),
        block.clone().prop_map(|(block, channel, text)| EventKind::Delta { block, channel, text }),
        block.prop_map(|(block, channel, text)| EventKind::Block { block, channel, text }),
        any_tool_call().prop_map(EventKind::ToolCall),
        (any_tool_id(), any::<bool>(), any_text())
            .prop_map(|(id, ok, output)| EventKind::ToolResult(ToolResult::new(id, ok, output))),
        any_plan().prop_map(EventKind::Plan),
        any_approval().prop_map(EventKind::Approval),
        (any_approval_id(), select(&Verdict::ALL[..]), any_text())
            .prop_map(|(id, verdict, by)| EventKind::Resolved(Resolution { id, verdict, by })),
        any_usage().prop_map(EventKind::Usage),
        (select(vec![NoticeLevel::Info, NoticeLevel::Warning]), any_text(), any_text())
            .prop_map(|(level, code, text)| EventKind::Notice(Notice::new(level, code, text))),
        (".*", any_json()).prop_map(|(name, raw)| EventKind::Native { name: name.into(), raw }),
        any_outcome().prop_map(EventKind::Finished),
    ]
    .boxed()
}

fn any_text() -> impl Strategy<Value = Arc<str>> + Clone {
    // `.` never matches a line break.
    r"(.|\n|\r){0,20}".prop_map(Arc::from)
}

fn any_tool_id() -> impl Strategy<Value = ToolId> {
    any_text().prop_map(ToolId::new)
}

fn any_approval_id() -> impl Strategy<Value = ApprovalId> {
    any::<u128>().prop_map(|id| ApprovalId::from_uuid(Uuid::from_u128(id)))
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_000_000_i64)
        .prop_map(|time| Timestamp::from_microsecond(time).unwrap_or_default())
}

fn any_json() -> impl Strategy<Value = RawJson> {
    let text = prop_oneof![
        Just(r#"{ "z":1.0, "a":"\u0041\/", "big":12345678901234567890123 }"#.to_owned()),
        any::<i64>().prop_map(|number| format!("[{number}, null ]")),
        ".*".prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    text.prop_map(|text| {
        let raw = RawValue::from_string(text);
        raw.unwrap_or_else(|_never| RawValue::NULL.to_owned()).into()
    })
}

fn any_channel() -> impl Strategy<Value = TextChannel> + Clone {
    select(vec![TextChannel::Answer, TextChannel::Reasoning])
}

fn any_start() -> impl Strategy<Value = AgentStart> {
    let native_session_id = option::of(any_text().prop_map(NativeSessionId::new));
    (
        any_text(),
        any_text(),
        option::of(any_text()),
        native_session_id,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(profile, executor, model, native_session_id, resumed, warm)| AgentStart {
            profile,
            executor,
            model,
            native_session_id,
            resumed,
            warm,
        })
}

fn any_tool_call() -> impl Strategy<Value = ToolCall> {
    let class =
        select(vec![ToolClass::Read, ToolClass::Edit, ToolClass::Execute, ToolClass::Other]);
    (any_tool_id(), any_text(), class, any_json(), any_text(), option::of(any_tool_id())).prop_map(
        |(id, name, class, input, title, parent)| ToolCall {
            id,
            name,
            class,
            input,
            title,
            parent,
        },
    )
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let status = select(vec![PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed]);
    let item = (any_text(), status).prop_map(|(text, status)| PlanItem { text, status });
    vec(item, 0..4).prop_map(|items| Plan { items })
}

fn any_approval() -> impl Strategy<Value = Approval> {
    let kind = prop_oneof![
        Just(ApprovalKind::Tool),
        vec(any_question(), 0..3).prop_map(|questions| ApprovalKind::Question(questions.into())),
    ];
    let tool = (option::of(any_tool_id()), any_text());
    let about = (any_text(), option::of(any_text()));
    (any_approval_id(), kind, tool, any_text(), about, any_time()).prop_map(
        |(id, kind, (tool_id, tool_name), title, (detail, diff), expires_at)| Approval {
            id,
            kind,
            tool_id,
            tool_name,
            title,
            detail,
            diff,
            rules: Vec::new(),
            expires_at,
        },
    )
}

fn any_question() -> impl Strategy<Value = Question> {
    let option = (any_text(), any_text())
        .prop_map(|(label, description)| QuestionOption { label, description });
    (any_text(), any_text(), vec(option, 0..3), any::<bool>())
        .prop_map(|(text, header, options, multiple)| Question { text, header, options, multiple })
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let context =
        (any::<u64>(), any::<u64>()).prop_map(|(used, size)| ContextWindow { used, size });
    // Use eighths, because the public form does not guarantee the exact last bit.
    let cost = any::<u16>().prop_map(|eighths| f64::from(eighths) / 8.0);
    let tokens = [any::<u64>(); 4];
    let labels = (option::of(any_text()), option::of(any_text()));
    (tokens, option::of(cost), labels, option::of(context)).prop_map(
        |(tokens, cost_usd, (lane, prefix_sha256), context)| {
            let [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] = tokens;
            Usage {
                input_tokens,
                output_tokens,
                cache_read_tokens,
                cache_write_tokens,
                cost_usd,
                lane,
                prefix_sha256,
                context,
            }
        },
    )
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let wait = any::<u32>().prop_map(|seconds| Duration::from_secs(seconds.into()));
    let failure =
        (select(&FailureKind::ALL[..]), any_text(), option::of(any_text()), option::of(wait))
            .prop_map(|(kind, message, hint, retry_after)| Failure {
                kind,
                message,
                hint,
                retry_after,
            });
    let status = prop_oneof![
        select(vec![TurnStatus::Completed, TurnStatus::Partial, TurnStatus::Interrupted]),
        failure.prop_map(TurnStatus::Failed),
        any_time().prop_map(|resumes_at| TurnStatus::Parked { resumes_at }),
    ];
    (status, any_text(), any_text(), any_usage())
        .prop_map(|(status, text, reason, usage)| Outcome { status, text, reason, usage })
}
