//! Formats what translators emit for snapshots, one line for each emission.

use angelia_core::{
    model::{ApprovalKind, EventKind, TextChannel, TurnStatus},
    ports::{AgentEvent, AgentOutcome},
};

pub(crate) fn format_agent_event(emitted: &AgentEvent) -> String {
    match emitted {
        AgentEvent::Event(kind) => format_event(kind),
        AgentEvent::Activity(activity) => format!("activity {activity:?}"),
        AgentEvent::Quota(quota) => {
            format!("quota {} used={:?} exhausted={}", quota.window, quota.used, quota.is_exhausted)
        }
        AgentEvent::HandedOnCost(usd) => format!("handed on for {usd}"),
        AgentEvent::ApprovalWithdrawn(key) => format!("withdraw {key}"),
        AgentEvent::ApprovalRequest(ask) => format!(
            "ask {} {} {} subject={:?} title={:?} detail={:?} input={}",
            match &ask.kind {
                ApprovalKind::Tool => "tool".to_owned(),
                ApprovalKind::Question(questions) => format!("question×{}", questions.len()),
            },
            ask.tool_name,
            ask.class.as_str(),
            ask.subject.as_deref().unwrap_or("-"),
            ask.title,
            ask.detail,
            cut(ask.input.get()),
        ),
    }
}

fn format_event(kind: &EventKind) -> String {
    let channel = |channel: &TextChannel| match channel {
        TextChannel::Answer => "text",
        TextChannel::Reasoning => "reasoning",
    };
    match kind {
        EventKind::Started(started) => format!(
            "started model={} session={} resumed={}",
            started.model.as_deref().unwrap_or("-"),
            started.native_session_id.as_ref().map_or("-", |id| id.as_str()),
            started.resumed,
        ),
        EventKind::Delta { block, channel: c, text } => {
            format!("{}.delta {block} {:?}", channel(c), cut(text))
        }
        EventKind::Block { block, channel: c, text } => {
            format!("{} {block} {:?}", channel(c), cut(text))
        }
        EventKind::ToolCall(call) => format!(
            "tool.started {} {} {} title={:?} parent={} input={}",
            call.id,
            call.name,
            call.class.as_str(),
            call.title,
            call.parent.as_ref().map_or("-", |id| id.as_str()),
            cut(call.input.get()),
        ),
        EventKind::ToolResult(result) => {
            format!("tool.finished {} ok={} {:?}", result.id, result.ok, cut(&result.output))
        }
        EventKind::Plan(plan) => format!("plan {:?}", plan.items),
        EventKind::Usage(usage) => format!(
            "usage in={} out={} read={} write={} cost={} lane={}",
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.cost_usd.map_or("-".to_owned(), |cost| format!("{cost:.6}")),
            usage.lane.as_deref().unwrap_or("-"),
        ),
        EventKind::Notice(notice) => {
            format!("notice {} {} {:?}", notice.level.as_str(), notice.code, notice.text)
        }
        EventKind::Native { name, raw } => format!("native {name} ({} bytes)", raw.get().len()),
        EventKind::Approval(_) | EventKind::Resolved(_) | EventKind::Finished(_) => {
            unreachable!("only the engine says these")
        }
    }
}

pub(crate) fn format_outcome(ended: &AgentOutcome) -> String {
    let failure = match &ended.status {
        TurnStatus::Failed(failure) => format!(
            " kind={} message={:?} hint={:?} retry_after={:?}",
            failure.kind.as_str(),
            cut(&failure.message),
            failure.hint.as_deref().unwrap_or("-"),
            failure.retry_after,
        ),
        _ => String::new(),
    };
    format!(
        "=> ended {} reason={} text={:?}{failure}",
        ended.status.as_str(),
        ended.reason,
        ended.text.as_deref().map_or_else(|| "-".to_owned(), cut),
    )
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}…[{}]", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
