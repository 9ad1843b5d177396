//! Appends events to a batch; shared by the translators of all agents.

use std::sync::Arc;

use angelia_core::{
    model::{EventKind, Notice, NoticeLevel},
    ports::AgentEvent,
};
use serde_json::value::RawValue;

pub(crate) fn emit_event(kind: EventKind, out: &mut Vec<AgentEvent>) {
    out.push(AgentEvent::Event(kind));
}

pub(crate) fn emit_notice(
    level: NoticeLevel,
    code: &str,
    text: impl Into<Arc<str>>,
    out: &mut Vec<AgentEvent>,
) {
    emit_event(EventKind::Notice(Notice::new(level, code, text)), out);
}

/// Passes on the agent's JSON unchanged, for messages that have no event kind of their own.
pub(crate) fn emit_native(name: &str, raw: &RawValue, out: &mut Vec<AgentEvent>) {
    let (name, raw) = (name.into(), raw.to_owned().into());
    emit_event(EventKind::Native { name, raw }, out);
}
