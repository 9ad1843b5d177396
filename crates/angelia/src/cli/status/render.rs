//! The status as text. Pure: the width, the colours and the time are arguments.

use std::fmt::Display;

use angelia_frontends::http::resources::{
    AgentResource, ApprovalResource, ChannelResource, InputPart, QuotaResource, ScheduleResource,
    StatusResource, TurnResource,
};
use jiff::Timestamp;

use crate::cli::{
    usage::format_used,
    view::{
        Style, View, break_parts, format_ago, format_bytes, format_span, format_until, short_id,
    },
};

/// Width of the labels.
const LABEL: usize = 10;

/// Maximum number of schedules listed. If there are more, they are only counted.
const MAX_SCHEDULES: usize = 3;

pub(crate) fn render(status: &StatusResource, view: &View, now: Timestamp) -> String {
    let mut out = Report { view, now, text: String::new() };
    out.daemon(status);
    out.agents(status);
    out.turns(&status.turns);
    out.approvals(&status.approvals);
    out.schedules(&status.schedules);
    if let Some(bus) = &status.bus {
        let text = format!(
            "{}, {} listening, {} queued",
            count(bus.endpoints, "endpoint"),
            bus.listening,
            count(bus.queued, "message"),
        );
        out.line("bus", Style::Plain, &text);
    }
    out.channels(&status.channels);
    out.quotas(&status.quotas);
    let today = &status.usage_today;
    let text = match today.turns {
        0 => "no turns".to_owned(),
        turns => format!("{} · {}", count(turns, "turn"), format_used(&today.usage.0)),
    };
    out.line("today", Style::Plain, &text);
    out.text
}

fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

struct Report<'a> {
    view: &'a View,
    now: Timestamp,
    text: String,
}

impl Report<'_> {
    /// Adds a section, preceded by its label.
    fn line(&mut self, label: &str, style: Style, text: &str) {
        let mut label = self.view.cell(Style::Bold, label, LABEL);
        for line in break_parts(text, self.view.width.saturating_sub(LABEL)) {
            let line = self.view.rest(style, &line, LABEL);
            self.push(&format!("{label}{line}"));
            label = " ".repeat(LABEL);
        }
    }

    /// Adds a row below a section. The last cell gets the rest of the width.
    fn row(&mut self, cells: &[(Style, &str, usize)], last: &str) {
        let mut row = "  ".to_owned();
        let mut used = row.len();
        for (style, text, width) in cells {
            row.push_str(&self.view.cell(*style, text, *width));
            row.push_str("  ");
            used += width + 2;
        }
        row.push_str(&self.view.rest(Style::Plain, last, used));
        self.push(&row);
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn daemon(&mut self, status: &StatusResource) {
        let daemon = &status.daemon;
        if !daemon.running {
            let text = "not running; `angelia start` starts it";
            self.line("daemon", Style::Warning, text);
            return;
        }
        let mut parts = vec!["running".to_owned()];
        parts.extend(daemon.pid.map(|pid| format!("pid {pid}")));
        parts.extend(daemon.version.clone());
        parts.extend(daemon.uptime_seconds.map(|seconds| format!("up {}", format_span(seconds))));
        parts.extend(daemon.address.as_ref().map(|address| format!("http://{address}")));
        self.line("daemon", Style::Good, &parts.join(" · "));
        let Some(config) = &daemon.config else { return };
        let loaded = format!("{} · read {}", config.path, format_ago(config.loaded_at, self.now));
        self.line("config", Style::Plain, &loaded);
        if !config.waiting.is_empty() {
            let text = format!("waits for `angelia restart`: {}", config.waiting.join(", "));
            self.line("", Style::Warning, &text);
        }
        if let Some(error) = &config.error {
            let mut begin = "not used as it is now: ";
            for line in error.lines() {
                self.line("", Style::Bad, &format!("{begin}{}", line.trim()));
                begin = "";
            }
        }
    }

    fn agents(&mut self, status: &StatusResource) {
        if status.agents.is_empty() {
            let text = if status.daemon.running { "none" } else { "unknown without a daemon" };
            return self.line("agents", Style::Faint, text);
        }
        let live = status.agents.iter().filter(|agent| agent.session_id.is_some()).count();
        let memory: u64 = status.agents.iter().filter_map(|agent| agent.rss_bytes).sum();
        let most = status.max_agents.map(|max| format!(" of at most {max}")).unwrap_or_default();
        let text = format!("{live}{most} · {}", format_bytes(memory));
        self.line("agents", Style::Plain, &text);
        for agent in &status.agents {
            self.agent(agent);
        }
    }

    fn agent(&mut self, agent: &AgentResource) {
        let (style, state) = match agent.idle_seconds {
            Some(seconds) => {
                let span = format_span(seconds);
                let span = span.split(' ').next().unwrap_or_default();
                (Style::Faint, format!("idle {span}"))
            }
            None if agent.session_id.is_some() => (Style::Good, agent.state.clone()),
            None => (Style::Faint, agent.state.clone()),
        };
        let memory = agent.rss_bytes.map_or_else(|| "shared".to_owned(), format_bytes);
        let session = match (&agent.session_id, agent.pid) {
            (Some(session), _) => short_id(&session.to_string()).to_owned(),
            (None, Some(pid)) => format!("pid {pid}"),
            (None, None) => String::new(),
        };
        let kind = agent_kind(agent);
        let title = agent.title.as_deref().filter(|_| agent.session_id.is_some());
        if self.view.width < 60 {
            let cells = [(style, state.as_str(), 8), (Style::Plain, memory.as_str(), 7)];
            return self.row(&cells, &format!("{session} {kind}"));
        }
        let cells = [
            (style, state.as_str(), 8),
            (Style::Plain, memory.as_str(), 7),
            (Style::Plain, session.as_str(), 13),
            (Style::Plain, kind.as_str(), 16),
        ];
        self.row(&cells, title.unwrap_or_default());
    }

    fn turns(&mut self, turns: &[TurnResource]) {
        if turns.is_empty() {
            return self.line("turns", Style::Faint, "none running or waiting");
        }
        let running = turns.iter().filter(|turn| turn.status == "running").count();
        let waiting = turns.len() - running;
        let text = format!("{running} running, {waiting} waiting");
        self.line("turns", Style::Plain, &text);
        for turn in turns {
            let style = if turn.status == "running" { Style::Good } else { Style::Warning };
            let state = match (turn.status.as_str(), turn.resumes_at) {
                (_, Some(at)) => format!("parked, goes on {}", format_until(at, self.now)),
                ("awaiting_approval", _) => "asks you".to_owned(),
                ("awaiting_tool_result", _) => "awaits tool".to_owned(),
                (other, _) => other.to_owned(),
            };
            let age = format_ago(turn.created_at, self.now);
            let session = turn.session_id.to_string();
            let words = first_words(turn);
            if self.view.width < 60 {
                self.row(&[(style, &state, 11), (Style::Plain, &age, 7)], &words);
                continue;
            }
            let width = if turn.resumes_at.is_some() { 28 } else { 11 };
            let cells = [
                (style, state.as_str(), width),
                (Style::Plain, age.as_str(), 7),
                (Style::Plain, short_id(&session), 13),
            ];
            self.row(&cells, &words);
        }
    }

    fn approvals(&mut self, approvals: &[ApprovalResource]) {
        if approvals.is_empty() {
            return;
        }
        let text = format!("{} waiting; `angelia approvals approve ID`", approvals.len());
        self.line("approvals", Style::Warning, &text);
        for approval in approvals {
            let id = approval.id.to_string();
            let age = format_ago(approval.asked_at, self.now);
            let cells = [(Style::Plain, short_id(&id), 13), (Style::Plain, age.as_str(), 7)];
            self.row(&cells, &approval.title);
        }
    }

    fn schedules(&mut self, schedules: &[ScheduleResource]) {
        if schedules.is_empty() {
            return;
        }
        self.line("schedules", Style::Plain, &format!("{} waiting", schedules.len()));
        for schedule in schedules.iter().take(MAX_SCHEDULES) {
            let when = match schedule.next_at {
                Some(at) => format_until(at, self.now),
                None => "on change".to_owned(),
            };
            let id = schedule.short_id.clone().unwrap_or_else(|| schedule.id.to_string());
            let cells = [(Style::Plain, id.as_str(), 13), (Style::Plain, when.as_str(), 9)];
            self.row(&cells, schedule.prompt.lines().next().unwrap_or_default());
        }
    }

    fn channels(&mut self, channels: &[ChannelResource]) {
        for (index, channel) in channels.iter().enumerate() {
            let label = if index == 0 { "channels" } else { "" };
            let style = match channel.state.as_str() {
                "connected" => Style::Good,
                "connecting" => Style::Plain,
                _ => Style::Bad,
            };
            let mut parts = vec![format!("{}: {}", channel.id, channel.state)];
            let last =
                channel.last_event_at.map(|at| format!("last event {}", format_ago(at, self.now)));
            parts.extend(last);
            parts.extend((channel.backlog > 0).then(|| format!("{} waiting", channel.backlog)));
            let error = channel.last_error.clone().filter(|_| channel.state != "connected");
            parts.extend(error);
            self.line(label, style, &parts.join(" · "));
        }
    }

    fn quotas(&mut self, quotas: &[QuotaResource]) {
        for (index, quota) in quotas.iter().enumerate() {
            let label = if index == 0 { "quota" } else { "" };
            let (style, text) = format_quota(quota, self.now);
            self.line(label, style, &text);
        }
    }
}

/// Returns the executor and the profile of an agent, or the program of a spare process.
fn agent_kind(agent: &AgentResource) -> String {
    let executor = agent.executor.as_deref().filter(|_| agent.session_id.is_some());
    match (executor, agent.profile.as_deref()) {
        (Some(executor), Some(profile)) if profile != executor => format!("{executor}/{profile}"),
        (Some(executor), _) => executor.to_owned(),
        (None, _) => agent.program.clone().unwrap_or_default(),
    }
}

/// Formats what is left of a quota, and its reset time.
pub(crate) fn format_quota(quota: &QuotaResource, now: Timestamp) -> (Style, String) {
    let is_over = quota.resets_at.is_some_and(|at| at <= now);
    let (style, left) = match quota.left_percent {
        // A report from before the reset says nothing about the present.
        _ if is_over => (Style::Faint, "reset since the last report".to_owned()),
        _ if quota.exhausted => (Style::Bad, "used up".to_owned()),
        Some(left) if left < 20.0 => (Style::Warning, format!("{left:.0} % left")),
        Some(left) => (Style::Good, format!("{left:.0} % left")),
        None => (Style::Good, "available".to_owned()),
    };
    let name = format!("{} {}", quota.executor, quota.window.replace('_', "-"));
    let resets = match quota.resets_at {
        Some(at) if !is_over => format!(" · resets {}", format_until(at, now)),
        _ => String::new(),
    };
    (style, format!("{name}: {left}{resets}"))
}

/// Returns the first line of the person's input.
fn first_words(turn: &TurnResource) -> String {
    let line = turn.input.iter().find_map(|part| match part {
        InputPart::Text { text } => text.lines().map(str::trim).find(|line| !line.is_empty()),
        InputPart::Image { .. } => None,
    });
    line.unwrap_or("(an image)").to_owned()
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
