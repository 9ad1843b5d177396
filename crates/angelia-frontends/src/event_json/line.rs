//! One event as one JSON object: the head, which all events have, and the fields of its type. Reading
//! is for our own clients of the daemon: unknown fields are ignored, and an event with an unknown
//! type or shape becomes `Native`, so that an older client can watch a newer daemon.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{EventKind, Seq, SessionId, TextChannel, TurnEvent, TurnId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_with::{As, DisplayFromStr};

use super::{
    kinds::{
        ApprovalJson, FinishedJson, NativeJson, NoticeJson, PlanJson, ResolutionJson, StartedJson,
        TextJson, ToolCallJson, ToolResultJson,
    },
    parts::UsageFields,
    time::Rfc3339,
};

#[derive(Debug, thiserror::Error)]
#[error("this is not an event of angelia: {0}; is another program answering at this address?")]
pub struct BadEvent(#[from] serde_json::Error);

#[derive(Serialize, Deserialize)]
struct EventHead<'a> {
    seq: Seq,
    #[serde(with = "As::<DisplayFromStr>")]
    turn_id: TurnId,
    #[serde(with = "As::<DisplayFromStr>")]
    session_id: SessionId,
    #[serde(with = "As::<Rfc3339>")]
    time: Timestamp,
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
}

#[derive(Serialize)]
struct EventLine<'a> {
    #[serde(flatten)]
    head: EventHead<'a>,
    #[serde(flatten, serialize_with = "serialize_kind")]
    kind: &'a EventKind,
}

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
    let head = EventHead {
        seq: event.seq,
        turn_id: event.turn,
        session_id: event.session,
        time: event.at,
        name: Cow::Borrowed(event_type(&event.kind)),
    };
    if let Err(error) = serde_json::to_writer(&mut *out, &EventLine { head, kind: &event.kind }) {
        // Writing our own types to a vector does not fail. If it ever does, no event is better than
        // half an event.
        tracing::error!(turn = %event.turn, seq = event.seq, %error, "cannot serialize an event");
        out.truncate(start);
    }
    if matches!(event.kind, EventKind::ToolCall(_) | EventKind::Native { .. }) {
        // The agent's JSON is embedded verbatim. Its line breaks are between tokens, never inside a
        // string, so spaces can replace them: one event must be one line.
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

fn serialize_kind<S: Serializer>(kind: &EventKind, to: S) -> Result<S::Ok, S::Error> {
    match kind {
        EventKind::Started(started) => StartedJson::serialize(started, to),
        EventKind::Delta { block, text, .. } | EventKind::Block { block, text, .. } => {
            TextJson { block: *block, text: Arc::clone(text) }.serialize(to)
        }
        EventKind::ToolCall(call) => ToolCallJson::serialize(call, to),
        EventKind::ToolResult(result) => ToolResultJson::serialize(result, to),
        EventKind::Plan(plan) => PlanJson::serialize(plan, to),
        EventKind::Approval(approval) => ApprovalJson::from(approval).serialize(to),
        EventKind::Resolved(resolution) => ResolutionJson::serialize(resolution, to),
        EventKind::Usage(usage) => UsageFields::serialize(usage, to),
        EventKind::Notice(notice) => NoticeJson::serialize(notice, to),
        EventKind::Native { name, raw } => {
            NativeJson { name: name.clone(), raw: Arc::clone(raw) }.serialize(to)
        }
        EventKind::Finished(outcome) => FinishedJson::from(outcome).serialize(to),
    }
}

/// Parses one event. Its number, turn, session, time and type are required.
pub fn read_event(json: &str) -> Result<TurnEvent, BadEvent> {
    let head: EventHead<'_> = serde_json::from_str(json)?;
    let kind = match parse_kind(&head.name, json) {
        Some(kind) => kind,
        None => EventKind::Native { name: (&*head.name).into(), raw: serde_json::from_str(json)? },
    };
    Ok(TurnEvent {
        turn: head.turn_id,
        session: head.session_id,
        seq: head.seq,
        at: head.time,
        kind,
    })
}

/// Parses the fields of an event. Returns `None` for an unknown type or missing fields.
fn parse_kind(name: &str, json: &str) -> Option<EventKind> {
    let from = &mut serde_json::Deserializer::from_str(json);
    Some(match name {
        "turn.started" => EventKind::Started(StartedJson::deserialize(from).ok()?),
        "text.delta" | "reasoning.delta" => {
            let TextJson { block, text } = TextJson::deserialize(from).ok()?;
            EventKind::Delta { block, channel: text_channel(name), text }
        }
        "text" | "reasoning" => {
            let TextJson { block, text } = TextJson::deserialize(from).ok()?;
            EventKind::Block { block, channel: text_channel(name), text }
        }
        "tool.started" => EventKind::ToolCall(ToolCallJson::deserialize(from).ok()?),
        "tool.finished" => EventKind::ToolResult(ToolResultJson::deserialize(from).ok()?),
        "plan" => EventKind::Plan(PlanJson::deserialize(from).ok()?),
        "approval.requested" => {
            EventKind::Approval(ApprovalJson::deserialize(from).ok()?.into_approval()?)
        }
        "approval.resolved" => EventKind::Resolved(ResolutionJson::deserialize(from).ok()?),
        "usage" => EventKind::Usage(UsageFields::deserialize(from).ok()?),
        "notice" => EventKind::Notice(NoticeJson::deserialize(from).ok()?),
        "native" => {
            let NativeJson { name, raw } = NativeJson::deserialize(from).ok()?;
            EventKind::Native { name, raw }
        }
        "turn.finished" => {
            EventKind::Finished(FinishedJson::deserialize(from).ok()?.into_outcome()?)
        }
        _ => return None,
    })
}

fn text_channel(name: &str) -> TextChannel {
    if name.starts_with("reasoning") { TextChannel::Reasoning } else { TextChannel::Answer }
}
