//! A session as a conversation: its texts by speaker, and its tool calls. Read once from the
//! record, then written for a terminal or as Markdown.

use std::{collections::HashMap, fmt::Write as _};

use angelia_core::model::{EventKind, SessionId, TextChannel, ToolId, TurnEvent};
use angelia_frontends::{
    event_json::time::Rfc3339,
    http::resources::{InputPart, SessionResource, TurnResource},
};
use jiff::tz::TimeZone;

use crate::{
    cli::{
        error::CommandError,
        markdown::{self, LayoutOptions},
        print::format_minute_in,
        usage::format_used,
        view::{Style, View, format_span},
    },
    records::Records,
};

pub(super) struct Transcript {
    session: SessionResource,
    /// Oldest first.
    turns: Vec<TranscriptTurn>,
}

struct TranscriptTurn {
    turn: TurnResource,
    steps: Vec<Step>,
}

/// A part of the agent's answer.
enum Step {
    Text(String),
    /// `ok` is `None` if the tool has not ended.
    Tool {
        title: String,
        ok: Option<bool>,
    },
}

impl Transcript {
    pub(super) async fn read(records: &Records, id: SessionId) -> Result<Self, CommandError> {
        let session = records.session(id).await?;
        let mut turns = Vec::new();
        for turn in records.all_turns(id).await?.into_iter().rev() {
            // The event stream of a running turn does not end.
            let events = match turn.finished_at {
                Some(_) => records.events(turn.id).await?,
                None => Vec::new(),
            };
            turns.push(TranscriptTurn { steps: steps(&events, &turn), turn });
        }
        Ok(Self { session, turns })
    }

    /// Returns the conversation for a person to read, as wide as the view.
    pub(super) fn render(&self, view: &View, zone: &TimeZone) -> String {
        let mut out = String::new();
        let session = &self.session;
        let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let model = session.model.clone().unwrap_or_else(|| "(the agent's default)".to_owned());
        let rows = [
            ("id", session.id.to_string()),
            ("name", or_dash(&session.name)),
            ("title", or_dash(&session.title)),
            ("agent", format!("{} · profile {} · {model}", session.executor, session.profile)),
            ("mode", session.mode.clone()),
            ("directory", session.cwd.display().to_string()),
            ("own id", or_dash(&session.native_session_id)),
            ("forked from", or_dash(&session.forked_from.map(|id| id.to_string()))),
            ("created", format_minute_in(session.created_at, zone)),
            ("updated", format_minute_in(session.updated_at, zone)),
        ];
        for (name, value) in rows {
            let value = view.rest(Style::Plain, &value, 13);
            let _infallible = writeln!(out, "{}{value}", view.cell(Style::Faint, name, 13));
        }
        for turn in &self.turns {
            turn.render(&session.executor, view, zone, &mut out);
        }
        out
    }

    pub(super) fn markdown(&self) -> String {
        let session = &self.session;
        let mut out = String::new();
        let title = session.title.as_deref().unwrap_or("Session");
        let _infallible = writeln!(
            out,
            "# {title}\n\n- id: `{}`\n- agent: {}, profile {}\n- directory: `{}`\n- created: {}",
            session.id,
            session.executor,
            session.profile,
            session.cwd.display(),
            Rfc3339(session.created_at),
        );
        for turn in &self.turns {
            turn.markdown(&session.executor, &mut out);
        }
        out
    }
}

fn steps(events: &[TurnEvent], turn: &TurnResource) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut tools: HashMap<&ToolId, usize> = HashMap::new();
    for event in events {
        match &event.kind {
            EventKind::Block { channel: TextChannel::Answer, text, .. } if !text.is_empty() => {
                steps.push(Step::Text(text.to_string()));
            }
            EventKind::ToolCall(call) => {
                tools.insert(&call.id, steps.len());
                let title = match (&*call.name, &*call.title) {
                    (name, "") => name.to_owned(),
                    (name, title) if title.starts_with(name) => title.to_owned(),
                    (name, title) => format!("{name} {title}"),
                };
                steps.push(Step::Tool { title, ok: None });
            }
            EventKind::ToolResult(result) => {
                let step = tools.get(&result.id).and_then(|place| steps.get_mut(*place));
                if let Some(Step::Tool { ok, .. }) = step {
                    *ok = Some(result.ok);
                }
            }
            _ => {}
        }
    }
    let has_text = steps.iter().any(|step| matches!(step, Step::Text(_)));
    if let Some(text) = turn.text.as_ref().filter(|text| !has_text && !text.is_empty()) {
        steps.push(Step::Text(text.clone()));
    }
    steps
}

impl TranscriptTurn {
    fn render(&self, executor: &str, view: &View, zone: &TimeZone, out: &mut String) {
        let turn = &self.turn;
        let at = format_minute_in(turn.created_at, zone);
        push_heading(out, view, &format!("you · {at} · turn {}", turn.id));
        for part in &turn.input {
            let text = match part {
                InputPart::Text { text } => text.trim_end().to_owned(),
                InputPart::Image { media_type, bytes } => format!("[{media_type}, {bytes} bytes]"),
            };
            push_text(out, view, &text);
        }
        let took = turn.finished_at.map(|end| end.duration_since(turn.created_at).as_secs());
        let took = took.and_then(|seconds| u64::try_from(seconds).ok()).map(format_span);
        let took = took.map(|span| format!(" · {span}")).unwrap_or_default();
        push_heading(out, view, &format!("{executor} · {}{took}", turn.status));
        for step in &self.steps {
            match step {
                Step::Text(text) => push_answer(out, view, text.trim_end()),
                Step::Tool { title, ok } => {
                    let (style, mark) = tool_mark(*ok);
                    let line = title.lines().next().unwrap_or_default();
                    let line = view.rest(Style::Faint, line, 2);
                    let _infallible = writeln!(out, "{} {line}", view.paint(style, mark));
                }
            }
        }
        if let Some(failure) = &turn.failure {
            push_text(out, view, &format!("{} failure: {}", failure.0.kind.as_str(), failure.0));
        }
        if let Some(usage) = turn.usage.as_ref().filter(|usage| usage.0.output_tokens > 0) {
            let line = view.rest(Style::Faint, &format_used(&usage.0), 0);
            let _infallible = writeln!(out, "{line}");
        }
    }

    fn markdown(&self, executor: &str, out: &mut String) {
        let turn = &self.turn;
        let _infallible = writeln!(out, "\n## You, {}\n", Rfc3339(turn.created_at));
        for part in &turn.input {
            let _infallible = match part {
                InputPart::Text { text } => writeln!(out, "{}", text.trim_end()),
                InputPart::Image { media_type, bytes } => {
                    writeln!(out, "*an image: {media_type}, {bytes} bytes*")
                }
            };
        }
        let _infallible = writeln!(out, "\n## {executor} ({})\n", turn.status);
        let mut was_tool = false;
        for step in &self.steps {
            let is_tool = matches!(step, Step::Tool { .. });
            if was_tool && !is_tool {
                out.push('\n');
            }
            was_tool = is_tool;
            let _infallible = match step {
                Step::Text(text) => writeln!(out, "{}\n", text.trim_end()),
                Step::Tool { title, ok } => {
                    let line = title.lines().next().unwrap_or_default().replace('`', "'");
                    writeln!(out, "- {} `{line}`", tool_mark(*ok).1)
                }
            };
        }
        if let Some(failure) = &turn.failure {
            let _infallible = writeln!(out, "**{}**: {}\n", failure.0.kind.as_str(), failure.0);
        }
    }
}

const fn tool_mark(ok: Option<bool>) -> (Style, &'static str) {
    match ok {
        Some(true) => (Style::Good, "✓"),
        Some(false) => (Style::Bad, "✗"),
        None => (Style::Faint, "•"),
    }
}

/// Adds a line that separates two speakers, as wide as the terminal.
fn push_heading(out: &mut String, view: &View, text: &str) {
    let width = if view.is_terminal { view.width } else { 0 };
    let text = format!("── {text} ");
    let fill = width.saturating_sub(text.chars().count());
    let line = view.rest(Style::Bold, &format!("{text}{}", "─".repeat(fill)), 0);
    let _infallible = writeln!(out, "\n{line}");
}

/// Adds a text of the agent: on a terminal as `run` shows it, otherwise as the agent wrote it.
fn push_answer(out: &mut String, view: &View, text: &str) {
    if !view.is_terminal {
        return push_text(out, view, text);
    }
    let options = LayoutOptions { width: view.width, has_colour: view.has_colour };
    for row in markdown::render(text, options) {
        out.push_str(&row.text);
        out.push('\n');
    }
}

/// Adds a text unchanged. Long lines are left to the pager and the terminal.
fn push_text(out: &mut String, view: &View, text: &str) {
    for line in text.lines() {
        let _infallible = writeln!(out, "{}", view.paint(Style::Plain, line));
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
