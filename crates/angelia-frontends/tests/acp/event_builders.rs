//! Constructors for events, and the ACP updates they turn into.

use std::path::Path;

use agent_client_protocol_schema::v1::SessionNotification;
use angelia_core::model::{
    ApprovalId, BlockId, EventKind, RawJson, Resolution, SessionId, TextChannel, ToolCall,
    ToolClass, ToolId, ToolResult, TurnEvent, TurnId, Verdict,
};
use angelia_frontends::acp::{EditorFeatures, UpdateEncoder};
use serde_json::Value;
use uuid::Uuid;

pub(crate) fn raw(json: &str) -> RawJson {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn turn() -> TurnId {
    TurnId::from_uuid(Uuid::from_u128(1))
}

pub(crate) fn encoder(notices: bool) -> UpdateEncoder {
    let session = SessionId::from_uuid(Uuid::from_u128(2));
    UpdateEncoder::new(session, Path::new("/w"), EditorFeatures { notices })
}

pub(crate) fn delta(block: BlockId, channel: TextChannel, text: &str) -> EventKind {
    EventKind::Delta { block, channel, text: text.into() }
}

pub(crate) fn block(block: BlockId, channel: TextChannel, text: &str) -> EventKind {
    EventKind::Block { block, channel, text: text.into() }
}

pub(crate) fn call(id: &str, class: ToolClass, input: &str) -> EventKind {
    EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        name: "Tool".into(),
        class,
        input: raw(input),
        title: "what it does".into(),
        parent: None,
    })
}

pub(crate) fn result(id: &str, ok: bool, output: &str) -> EventKind {
    EventKind::ToolResult(ToolResult::new(ToolId::new(id), ok, output))
}

pub(crate) fn resolved(approval: u128, verdict: Verdict) -> EventKind {
    EventKind::Resolved(Resolution {
        id: ApprovalId::from_uuid(Uuid::from_u128(approval)),
        verdict,
        by: "owner".into(),
    })
}

pub(crate) fn event(kind: EventKind, seq: u64) -> TurnEvent {
    TurnEvent {
        turn: turn(),
        session: SessionId::from_uuid(Uuid::from_u128(2)),
        seq,
        at: "2026-11-15T12:00:00Z".parse().unwrap(),
        kind,
    }
}

/// Returns the update lines for these events.
pub(crate) fn encode_all(mut updates: UpdateEncoder, kinds: &[EventKind]) -> String {
    let mut out = Vec::new();
    for (kind, seq) in kinds.iter().zip(1..) {
        updates.encode_event(&event(kind.clone(), seq), &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Parses the updates, and asserts that each is one line and valid in the protocol.
pub(crate) fn parse_updates(lines: &str) -> Vec<Value> {
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["jsonrpc"], "2.0");
        assert_eq!(line["method"], "session/update");
        let known = serde_json::from_value::<SessionNotification>(line["params"].clone());
        if let Err(error) = known {
            panic!("{error}: {line}");
        }
        line["params"]["update"].clone()
    };
    assert!(lines.is_empty() || lines.ends_with('\n'));
    lines.lines().map(read).collect()
}
