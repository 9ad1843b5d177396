//! Serializes events. This is the hot path of every viewer, so fields are written directly into the
//! output.

use angelia_core::model::{
    AgentStart, Approval, ApprovalKind, EventKind, NativeSessionId, Outcome, Plan, Resolution,
    TextChannel, ToolCall, ToolId, ToolResult, TurnEvent, TurnStatus,
};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use super::{
    parts::{FailureJson, QuestionJson, UsageJson, write_usage_fields},
    time::Rfc3339,
};

/// Returns the `type` of an event.
pub const fn event_type(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Started(_) => "turn.started",
        EventKind::Delta { channel, .. } => match channel {
            TextChannel::Answer => "text.delta",
            TextChannel::Reasoning => "reasoning.delta",
        },
        EventKind::Block { channel, .. } => match channel {
            TextChannel::Answer => "text",
            TextChannel::Reasoning => "reasoning",
        },
        EventKind::ToolCall(_) => "tool.started",
        EventKind::ToolResult(_) => "tool.finished",
        EventKind::Plan(_) => "plan",
        EventKind::Approval(_) => "approval.requested",
        EventKind::Resolved(_) => "approval.resolved",
        EventKind::Usage(_) => "usage",
        EventKind::Notice(_) => "notice",
        EventKind::Native { .. } => "native",
        EventKind::Finished(_) => "turn.finished",
    }
}

/// Appends the event as one JSON object on one line, without a line break after it.
pub fn write_event(event: &TurnEvent, out: &mut Vec<u8>) {
    let start = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, &EventView(event)) {
        // Writing our own types to a vector does not fail; if it does, no event is better than half
        // an event.
        tracing::error!(turn = %event.turn, seq = event.seq, %error, "cannot serialize an event");
        out.truncate(start);
    }
    if matches!(event.kind, EventKind::ToolCall(_) | EventKind::Native { .. }) {
        // The agent's JSON is embedded verbatim. Its line breaks stand between tokens, never inside
        // a string, so spaces can replace them: one event must be one line.
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

struct EventView<'a>(&'a TurnEvent);

impl Serialize for EventView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.0;
        let mut map = serializer.serialize_map(None)?;
        let mut id = [0; 36];
        map.serialize_entry("seq", &event.seq)?;
        let turn = event.turn.as_uuid().hyphenated();
        map.serialize_entry("turn_id", &*turn.encode_lower(&mut id))?;
        let session = event.session.as_uuid().hyphenated();
        map.serialize_entry("session_id", &*session.encode_lower(&mut id))?;
        map.serialize_entry("time", &Rfc3339(event.at))?;
        map.serialize_entry("type", event_type(&event.kind))?;
        write_kind(&mut map, &event.kind)?;
        map.end()
    }
}

fn write_kind<M: SerializeMap>(map: &mut M, kind: &EventKind) -> Result<(), M::Error> {
    match kind {
        EventKind::Started(started) => self::write_started(map, started),
        EventKind::Delta { block, text, .. } | EventKind::Block { block, text, .. } => {
            map.serialize_entry("block", block)?;
            map.serialize_entry("text", text)
        }
        EventKind::ToolCall(call) => write_tool_call(map, call),
        EventKind::ToolResult(ToolResult { id, ok, output }) => {
            map.serialize_entry("tool_id", id.as_str())?;
            map.serialize_entry("ok", ok)?;
            map.serialize_entry("output", output)
        }
        EventKind::Plan(plan) => map.serialize_entry("items", &PlanItems(plan)),
        EventKind::Approval(approval) => self::write_approval(map, approval),
        EventKind::Resolved(Resolution { id, verdict, by }) => {
            map.serialize_entry("approval_id", &DisplayJson(id))?;
            map.serialize_entry("verdict", verdict.as_str())?;
            map.serialize_entry("by", by)
        }
        EventKind::Usage(usage) => write_usage_fields(map, usage),
        EventKind::Notice(notice) => {
            map.serialize_entry("level", notice.level.as_str())?;
            map.serialize_entry("code", &notice.code)?;
            map.serialize_entry("text", &notice.text)
        }
        EventKind::Native { name, raw } => {
            map.serialize_entry("name", name)?;
            map.serialize_entry("raw", raw)
        }
        EventKind::Finished(outcome) => write_finished(map, outcome),
    }
}

fn write_started<M: SerializeMap>(map: &mut M, started: &AgentStart) -> Result<(), M::Error> {
    let native = started.native_session_id.as_ref();
    map.serialize_entry("profile", &started.profile)?;
    map.serialize_entry("executor", &started.executor)?;
    map.serialize_entry("model", &started.model)?;
    map.serialize_entry("native_session_id", &native.map(NativeSessionId::as_str))?;
    map.serialize_entry("resumed", &started.resumed)?;
    map.serialize_entry("warm", &started.warm)
}

fn write_tool_call<M: SerializeMap>(map: &mut M, call: &ToolCall) -> Result<(), M::Error> {
    map.serialize_entry("tool_id", call.id.as_str())?;
    map.serialize_entry("name", &call.name)?;
    map.serialize_entry("class", call.class.as_str())?;
    map.serialize_entry("input", &call.input)?;
    map.serialize_entry("title", &call.title)?;
    match &call.parent {
        Some(parent) => map.serialize_entry("parent_tool_id", parent.as_str()),
        None => Ok(()),
    }
}

fn write_approval<M: SerializeMap>(map: &mut M, approval: &Approval) -> Result<(), M::Error> {
    let choices: Vec<_> = approval.kind.choices().iter().map(|c| c.as_str()).collect();
    map.serialize_entry("approval_id", &DisplayJson(&approval.id))?;
    map.serialize_entry("kind", approval.kind.as_str())?;
    map.serialize_entry("title", &approval.title)?;
    map.serialize_entry("detail", &approval.detail)?;
    map.serialize_entry("tool_id", &approval.tool_id.as_ref().map(ToolId::as_str))?;
    map.serialize_entry("tool", &approval.tool_name)?;
    map.serialize_entry("choices", &choices)?;
    map.serialize_entry("expires_at", &Rfc3339(approval.expires_at))?;
    match &approval.kind {
        ApprovalKind::Tool => Ok(()),
        ApprovalKind::Question(questions) => {
            let questions: Vec<_> = questions.iter().map(QuestionJson::from).collect();
            map.serialize_entry("questions", &questions)
        }
    }
}

fn write_finished<M: SerializeMap>(map: &mut M, outcome: &Outcome) -> Result<(), M::Error> {
    map.serialize_entry("status", outcome.status.as_str())?;
    map.serialize_entry("text", &outcome.text)?;
    map.serialize_entry("reason", &outcome.reason)?;
    match &outcome.status {
        TurnStatus::Failed(failure) => {
            map.serialize_entry("failure", &FailureJson(failure.clone()))?;
        }
        TurnStatus::Parked { resumes_at } => {
            map.serialize_entry("resumes_at", &Rfc3339(*resumes_at))?;
        }
        TurnStatus::Completed | TurnStatus::Partial | TurnStatus::Interrupted => {}
    }
    map.serialize_entry("usage", &UsageJson(outcome.usage.clone()))
}

struct PlanItems<'a>(&'a Plan);

impl Serialize for PlanItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Item<'a> {
            text: &'a str,
            status: &'static str,
        }
        let mut items = serializer.serialize_seq(Some(self.0.items.len()))?;
        for item in &self.0.items {
            items.serialize_element(&Item { text: &item.text, status: item.status.as_str() })?;
        }
        items.end()
    }
}

/// Serializes an identifier through its `Display` form.
struct DisplayJson<'a, T>(&'a T);

impl<T: std::fmt::Display> Serialize for DisplayJson<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}
