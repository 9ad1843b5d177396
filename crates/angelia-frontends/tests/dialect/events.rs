//! Constructors for the events of a turn, and answer chunks formatted as lines.

use std::collections::HashSet;

use angelia_core::model::{
    BlockId, EventKind, Notice, NoticeLevel, Outcome, SessionId, TextChannel, ToolCall, ToolClass,
    ToolId, ToolResult, TurnEvent, TurnId, TurnStatus, Usage,
};
use angelia_frontends::http::dialect::{
    AnswerChunk, AnswerProgress, AnswerProjector, AnswerStart, ProjectorOptions,
};
use uuid::Uuid;

pub(crate) fn delta(block: BlockId, text: &str) -> EventKind {
    EventKind::Delta { block, channel: TextChannel::Answer, text: text.into() }
}

pub(crate) fn block(block: BlockId, text: &str) -> EventKind {
    EventKind::Block { block, channel: TextChannel::Answer, text: text.into() }
}

pub(crate) fn thought(block: BlockId, text: &str) -> EventKind {
    EventKind::Delta { block, channel: TextChannel::Reasoning, text: text.into() }
}

pub(crate) fn call(id: &str, name: &str, class: ToolClass) -> EventKind {
    EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        name: name.into(),
        class,
        input: serde_json::from_str(r#"{"city": "Paris"}"#).unwrap(),
        title: format!("client: {name}").into(),
        parent: None,
    })
}

pub(crate) fn result(id: &str, ok: bool) -> EventKind {
    EventKind::ToolResult(ToolResult::new(ToolId::new(id), ok, "out"))
}

pub(crate) fn awaiting() -> EventKind {
    let text = "waits for the caller's tools";
    EventKind::Notice(Notice::new(NoticeLevel::Info, "awaiting_tool_result", text))
}

pub(crate) fn warning(text: &str) -> EventKind {
    EventKind::Notice(Notice::new(NoticeLevel::Warning, "declined", text))
}

pub(crate) fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

pub(crate) fn finished(status: TurnStatus, text: &str) -> EventKind {
    EventKind::Finished(Outcome {
        status,
        text: text.into(),
        reason: "end_turn".into(),
        usage: used(30, 12),
    })
}

pub(crate) fn default_options() -> ProjectorOptions {
    ProjectorOptions {
        model: "claude/sonnet".into(),
        start: AnswerStart::Part(0),
        tools: HashSet::from(["get_weather".into()]),
        report_activity: false,
        hold_until_end: false,
        max_tokens: None,
    }
}

pub(crate) fn numbered(kinds: Vec<EventKind>) -> Vec<TurnEvent> {
    let numbered = kinds.into_iter().zip(1..);
    numbered
        .map(|(kind, seq)| TurnEvent {
            turn: TurnId::from_uuid(Uuid::from_u128(1)),
            session: SessionId::from_uuid(Uuid::from_u128(2)),
            seq,
            at: "2026-11-15T12:00:00Z".parse().unwrap(),
            kind,
        })
        .collect()
}

/// Feeds events until the answer is complete.
pub(crate) fn project(
    view: ProjectorOptions,
    kinds: Vec<EventKind>,
) -> (Vec<AnswerChunk>, AnswerProgress) {
    project_with(AnswerProjector::new(view), kinds)
}

pub(crate) fn project_with(
    mut shown: AnswerProjector,
    kinds: Vec<EventKind>,
) -> (Vec<AnswerChunk>, AnswerProgress) {
    let mut pieces = Vec::new();
    for event in numbered(kinds) {
        let step = shown.project(&event, &mut pieces);
        if !matches!(step, AnswerProgress::More) {
            return (pieces, step);
        }
    }
    (pieces, AnswerProgress::More)
}

/// Formats the answer: one line for each chunk, then its end.
pub(crate) fn format_answer(view: ProjectorOptions, kinds: Vec<EventKind>) -> String {
    format_projection(AnswerProjector::new(view), kinds)
}

pub(crate) fn format_projection(shown: AnswerProjector, kinds: Vec<EventKind>) -> String {
    let (pieces, step) = project_with(shown, kinds);
    let mut lines: Vec<String> = pieces.iter().map(line).collect();
    lines.push(match step {
        AnswerProgress::Failed(failure) => format!("failed: {failure}"),
        other => format!("{other:?}").to_lowercase(),
    });
    lines.join("\n")
}

fn line(piece: &AnswerChunk) -> String {
    match piece {
        AnswerChunk::Start(begin) => format!("begin {} part {}", begin.model, begin.part),
        AnswerChunk::Open(block) => format!("open {block:?}"),
        AnswerChunk::More(text) => format!("  {text:?}"),
        AnswerChunk::Close => "close".to_owned(),
        AnswerChunk::End(end) => format!(
            "end {:?} {} in={} out={}",
            end.stop, end.status, end.usage.input_tokens, end.usage.output_tokens
        ),
    }
}
