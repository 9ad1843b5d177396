//! Parses events, for our own clients of the daemon. Unknown fields are ignored, and an event with
//! an unknown type or shape becomes `Native`, so that an older client can watch a newer daemon.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{
    AgentStart, Approval, ApprovalKind, EventKind, NativeSessionId, Notice, NoticeLevel, Outcome,
    Plan, PlanItem, PlanStatus, Question, RawJson, Resolution, Seq, TextChannel, ToolCall,
    ToolClass, ToolId, ToolResult, TurnEvent, TurnStatus, Verdict,
};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};

use super::parts::{FailureJson, QuestionJson, UsageJson};

#[derive(Debug, thiserror::Error)]
#[error("this is not an event of angelia: {0}; is another program answering at this address?")]
pub struct BadEvent(String);

#[derive(Deserialize)]
struct EventHead<'a> {
    seq: Seq,
    #[serde(borrow)]
    turn_id: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    time: Timestamp,
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
}

/// Parses one event. Its number, turn, session, time and type are required.
pub fn read_event(json: &str) -> Result<TurnEvent, BadEvent> {
    let head: EventHead<'_> =
        serde_json::from_str(json).map_err(|error| BadEvent(error.to_string()))?;
    let turn = head.turn_id.parse();
    let session = head.session_id.parse();
    let kind = match parse_kind(&head.name, json) {
        Some(kind) => kind,
        None => EventKind::Native {
            name: head.name.as_ref().into(),
            raw: serde_json::from_str(json).map_err(|error| BadEvent(error.to_string()))?,
        },
    };
    Ok(TurnEvent {
        turn: turn.map_err(|error| BadEvent(format!("turn_id: {error}")))?,
        session: session.map_err(|error| BadEvent(format!("session_id: {error}")))?,
        seq: head.seq,
        at: head.time,
        kind,
    })
}

/// Parses the fields of an event. Returns `None` for an unknown type or missing fields.
fn parse_kind(name: &str, json: &str) -> Option<EventKind> {
    use TextChannel::{Answer, Reasoning};
    Some(match name {
        "turn.started" => EventKind::Started(started(parse(json)?)),
        "text.delta" => delta(parse(json)?, Answer),
        "reasoning.delta" => delta(parse(json)?, Reasoning),
        "text" => block(parse(json)?, Answer),
        "reasoning" => block(parse(json)?, Reasoning),
        "tool.started" => EventKind::ToolCall(tool_call(parse(json)?)),
        "tool.finished" => EventKind::ToolResult(tool_result(parse(json)?)),
        "plan" => EventKind::Plan(plan(parse(json)?)),
        "approval.requested" => EventKind::Approval(approval(parse(json)?)?),
        "approval.resolved" => EventKind::Resolved(resolution(&parse(json)?)?),
        "usage" => EventKind::Usage(parse::<UsageJson>(json)?.0),
        "notice" => EventKind::Notice(notice(parse(json)?)),
        "native" => {
            let NativeJson { name, raw } = parse(json)?;
            EventKind::Native { name, raw }
        }
        "turn.finished" => EventKind::Finished(outcome(parse(json)?)?),
        _ => return None,
    })
}

fn parse<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}

#[derive(Deserialize)]
struct StartedJson {
    profile: Arc<str>,
    executor: Arc<str>,
    model: Option<Arc<str>>,
    native_session_id: Option<Arc<str>>,
    #[serde(default)]
    resumed: bool,
    #[serde(default)]
    warm: bool,
}

fn started(json: StartedJson) -> AgentStart {
    AgentStart {
        profile: json.profile,
        executor: json.executor,
        model: json.model,
        native_session_id: json.native_session_id.map(NativeSessionId::new),
        resumed: json.resumed,
        warm: json.warm,
    }
}

#[derive(Deserialize)]
struct TextJson {
    block: u32,
    text: Arc<str>,
}

fn delta(TextJson { block, text }: TextJson, channel: TextChannel) -> EventKind {
    EventKind::Delta { block, channel, text }
}

fn block(TextJson { block, text }: TextJson, channel: TextChannel) -> EventKind {
    EventKind::Block { block, channel, text }
}

#[derive(Deserialize)]
struct ToolCallJson {
    tool_id: Arc<str>,
    name: Arc<str>,
    #[serde(default)]
    class: String,
    input: RawJson,
    #[serde(default)]
    title: Arc<str>,
    parent_tool_id: Option<Arc<str>>,
}

fn tool_call(json: ToolCallJson) -> ToolCall {
    const CLASSES: [ToolClass; 3] = [ToolClass::Read, ToolClass::Edit, ToolClass::Execute];
    ToolCall {
        id: ToolId::new(json.tool_id),
        name: json.name,
        class: CLASSES
            .into_iter()
            .find(|class| class.as_str() == json.class)
            .unwrap_or(ToolClass::Other),
        input: json.input,
        title: json.title,
        parent: json.parent_tool_id.map(ToolId::new),
    }
}

#[derive(Deserialize)]
struct ToolResultJson {
    tool_id: Arc<str>,
    ok: bool,
    #[serde(default)]
    output: Arc<str>,
}

fn tool_result(json: ToolResultJson) -> ToolResult {
    ToolResult { id: ToolId::new(json.tool_id), ok: json.ok, output: json.output }
}

#[derive(Deserialize)]
struct PlanJson {
    items: Vec<PlanItemJson>,
}

#[derive(Deserialize)]
struct PlanItemJson {
    text: Arc<str>,
    #[serde(default)]
    status: String,
}

fn plan(json: PlanJson) -> Plan {
    const STATUSES: [PlanStatus; 2] = [PlanStatus::InProgress, PlanStatus::Completed];
    let item = |item: PlanItemJson| PlanItem {
        status: STATUSES
            .into_iter()
            .find(|status| status.as_str() == item.status)
            .unwrap_or(PlanStatus::Pending),
        text: item.text,
    };
    Plan { items: json.items.into_iter().map(item).collect() }
}

#[derive(Deserialize)]
struct ApprovalJson {
    approval_id: String,
    kind: String,
    title: Arc<str>,
    #[serde(default)]
    detail: Arc<str>,
    tool_id: Option<Arc<str>>,
    #[serde(default)]
    tool: Arc<str>,
    #[serde(with = "super::time")]
    expires_at: Timestamp,
    #[serde(default)]
    questions: Vec<QuestionJson>,
}

fn approval(json: ApprovalJson) -> Option<Approval> {
    let kind = match json.kind.as_str() {
        "tool" => ApprovalKind::Tool,
        "question" => {
            ApprovalKind::Question(json.questions.into_iter().map(Question::from).collect())
        }
        _ => return None,
    };
    Some(Approval {
        id: json.approval_id.parse().ok()?,
        kind,
        tool_id: json.tool_id.map(ToolId::new),
        tool_name: json.tool,
        title: json.title,
        detail: json.detail,
        expires_at: json.expires_at,
    })
}

#[derive(Deserialize)]
struct ResolutionJson {
    approval_id: String,
    verdict: String,
    #[serde(default)]
    by: Arc<str>,
}

fn resolution(json: &ResolutionJson) -> Option<Resolution> {
    Some(Resolution {
        id: json.approval_id.parse().ok()?,
        verdict: Verdict::parse(&json.verdict)?,
        by: Arc::clone(&json.by),
    })
}

#[derive(Deserialize)]
struct NoticeJson {
    #[serde(default)]
    level: String,
    #[serde(default)]
    code: Arc<str>,
    text: Arc<str>,
}

fn notice(json: NoticeJson) -> Notice {
    let level = if json.level == NoticeLevel::Info.as_str() {
        NoticeLevel::Info
    } else {
        NoticeLevel::Warning
    };
    Notice::new(level, json.code, json.text)
}

#[derive(Deserialize)]
struct NativeJson {
    name: Box<str>,
    raw: RawJson,
}

#[derive(Deserialize)]
struct FinishedJson {
    status: String,
    #[serde(default)]
    text: Arc<str>,
    #[serde(default)]
    reason: Arc<str>,
    failure: Option<FailureJson>,
    resumes_at: Option<Timestamp>,
    #[serde(default)]
    usage: UsageJson,
}

fn outcome(json: FinishedJson) -> Option<Outcome> {
    let status = match json.status.as_str() {
        "completed" => TurnStatus::Completed,
        "partial" => TurnStatus::Partial,
        "interrupted" => TurnStatus::Interrupted,
        "failed" => TurnStatus::Failed(json.failure?.0),
        "parked" => TurnStatus::Parked { resumes_at: json.resumes_at? },
        _ => return None,
    };
    Some(Outcome { status, text: json.text, reason: json.reason, usage: json.usage.0 })
}
