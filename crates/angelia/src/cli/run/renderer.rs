//! Renders a turn for a person as it happens: the answer, the agent's tool calls, and the cost.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use angelia_core::{
    engine::{PARKED_NOTICE, SHUTDOWN_REASON},
    model::{
        BlockId, EventKind, NoticeLevel, Outcome, PlanStatus, TextChannel, TurnEvent, TurnStatus,
        Usage,
    },
};
use jiff::{SignedDuration, Timestamp};

use super::{
    approval_view,
    running_tools::RunningTools,
    screen::{Screen, Tone},
};
use crate::cli::{markdown::MarkdownStream, usage::format_used};

pub(crate) struct TurnRenderer<Out: Write, Err: Write> {
    pub(crate) screen: Screen<Out, Err>,
    /// The text printed so far for each open block of the answer.
    printed: HashMap<BlockId, String>,
    /// Whether at least one block of the answer has been printed completely.
    has_printed_block: bool,
    /// The block that is being rendered.
    stream: Option<(BlockId, MarkdownStream)>,
    tools: RunningTools,
    has_started: bool,
    /// Whether the turn waits for a quota, so that no agent works on it.
    is_parked: bool,
    /// The time of the first event.
    began_at: Option<Timestamp>,
    /// Whether the prompt asks for approvals, so that this renderer need not show them.
    asks: bool,
}

impl<Out: Write, Err: Write> TurnRenderer<Out, Err> {
    pub(crate) fn new(screen: Screen<Out, Err>, asks: bool) -> Self {
        Self {
            screen,
            printed: HashMap::new(),
            has_printed_block: false,
            stream: None,
            tools: RunningTools::default(),
            has_started: false,
            is_parked: false,
            began_at: None,
            asks,
        }
    }

    pub(crate) fn render_event(&mut self, event: &TurnEvent) -> io::Result<()> {
        self.began_at.get_or_insert(event.at);
        self.is_parked =
            matches!(&event.kind, EventKind::Notice(notice) if &*notice.code == PARKED_NOTICE);
        match &event.kind {
            EventKind::Started(started) => {
                self.has_started = true;
                if self.screen.is_live() {
                    let model = started.model.as_deref().unwrap_or("its default model");
                    let from = if started.resumed { ", resumed" } else { "" };
                    let line = format!("{} · {model}{from}", started.executor);
                    self.screen.write_line(Tone::Faint, &line)?;
                }
                Ok(())
            }
            EventKind::Delta { block, channel: TextChannel::Answer, text } => {
                self.render_delta(*block, text)
            }
            EventKind::Block { block, channel: TextChannel::Answer, text } => {
                self.render_block(*block, text)
            }
            EventKind::ToolCall(call) => {
                self.tools.begin(call, event.at);
                // A drawn spinner shows the title; otherwise the tool gets its own line.
                match self.tools.label() {
                    Some(title) if !self.screen.redraws() => {
                        self.render_live(Tone::Faint, &format!("• {title}"), "")
                    }
                    _ => Ok(()),
                }
            }
            EventKind::ToolResult(result) => {
                let Some(tool) = self.tools.end(&result.id) else { return Ok(()) };
                let elapsed = event.at.duration_since(tool.began_at);
                let tail = format!(" · {}", format_elapsed(elapsed));
                if result.ok {
                    return self.render_live(Tone::Faint, &format!("✓ {}", tool.title), &tail);
                }
                let why = result.output.lines().next().unwrap_or_default();
                self.render_live(Tone::Warning, &format!("✗ {}: {why}", tool.title), &tail)
            }
            EventKind::Plan(plan) => {
                for item in &plan.items {
                    let mark = match item.status {
                        PlanStatus::Pending => "☐",
                        PlanStatus::InProgress => "▸",
                        PlanStatus::Completed => "☑",
                    };
                    self.render_progress(Tone::Faint, &format!("  {mark} {}", item.text))?;
                }
                Ok(())
            }
            EventKind::Notice(notice) => match notice.level {
                NoticeLevel::Info => self.render_progress(Tone::Faint, &notice.text),
                NoticeLevel::Warning => self.screen.write_line(Tone::Warning, &notice.text),
            },
            EventKind::Approval(_) if self.asks => Ok(()),
            EventKind::Approval(approval) => {
                approval_view::write_approval(&mut self.screen, approval)
            }
            EventKind::Resolved(resolution) => {
                let line = format!("→ {} (by {})", resolution.verdict.as_str(), resolution.by);
                self.render_progress(Tone::Faint, &line)
            }
            // Reasoning, usage and native events appear only in the output of `--json`.
            EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::Usage(_)
            | EventKind::Native { .. } => Ok(()),
            EventKind::Finished(outcome) => {
                let began_at = self.began_at.unwrap_or(event.at);
                self.render_outcome(outcome, event.at.duration_since(began_at))
            }
        }
    }

    /// Advances the spinner; called several times a second while no event arrives.
    pub(crate) fn tick(&mut self, seconds: u64) -> io::Result<()> {
        let idle = match self.has_started {
            _ if self.is_parked => "waiting for the quota",
            true => "thinking",
            false => "starting",
        };
        let label = self.tools.label().unwrap_or_else(|| idle.to_owned());
        self.screen.spin(&format!("{label} … {seconds} s"))
    }

    fn render_delta(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        if !self.screen.streams() {
            return Ok(());
        }
        if !self.printed.contains_key(&block) {
            self.separate_blocks()?;
        }
        self.printed.entry(block).or_default().push_str(text);
        self.write_answer(block, text)
    }

    /// Writes text of a block, rendered if possible.
    fn write_answer(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        if !self.screen.renders() {
            return self.screen.write_text(text);
        }
        if self.stream.as_ref().is_some_and(|(open, _)| *open != block) {
            self.finish_stream()?;
        }
        let (_, stream) = self.stream.get_or_insert_with(|| (block, MarkdownStream::default()));
        let layout = self.screen.layout();
        let done = stream.push(text, layout);
        let open = stream.open_rows(layout);
        self.screen.write_rows(&done, open)
    }

    /// Makes the open rest of the rendered block final.
    fn finish_stream(&mut self) -> io::Result<()> {
        let Some((_, mut stream)) = self.stream.take() else { return Ok(()) };
        let rows = stream.finish(self.screen.layout());
        self.screen.write_rows(&rows, Vec::new())
    }

    /// Completes a block. Its final text overrides the deltas: missing text is added, and differing
    /// text is printed again.
    fn render_block(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        let printed = self.printed.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(printed.as_str()).filter(|_| !text.is_empty()) {
            if printed.is_empty() {
                self.separate_blocks()?;
            }
            self.write_answer(block, rest)?;
        } else if !printed.is_empty() {
            self.finish_stream()?;
            let what = "(the text above was withdrawn by the agent)";
            self.screen.write_line(Tone::Warning, what)?;
            self.write_answer(block, text)?;
        }
        self.finish_stream()?;
        if !text.is_empty() {
            self.has_printed_block = true;
            self.screen.end_line()?;
        }
        Ok(())
    }

    /// Separates the blocks of the answer with an empty line, like paragraphs.
    fn separate_blocks(&mut self) -> io::Result<()> {
        self.finish_stream()?;
        self.screen.end_line()?;
        if self.has_printed_block { self.screen.write_text("\n") } else { Ok(()) }
    }

    fn render_outcome(&mut self, outcome: &Outcome, elapsed: SignedDuration) -> io::Result<()> {
        // An agent that sends no blocks has the whole answer in the outcome.
        if !self.has_printed_block && self.printed.is_empty() && !outcome.text.is_empty() {
            self.write_answer(0, &outcome.text)?;
        }
        self.finish_stream()?;
        self.screen.close()?;
        for tool in self.tools.take_all() {
            self.render_live(Tone::Warning, &format!("✗ {}", tool.title), " · not finished")?;
        }
        match &outcome.status {
            TurnStatus::Completed => {}
            TurnStatus::Partial => {
                self.screen
                    .write_line(Tone::Warning, &format!("partial answer: {}", outcome.reason))?;
            }
            TurnStatus::Interrupted => {
                let line = match &*outcome.reason {
                    "interrupted" => "interrupted".to_owned(),
                    reason => format!("interrupted: {reason}"),
                };
                self.screen.write_line(Tone::Warning, &line)?;
                if &*outcome.reason == SHUTDOWN_REASON {
                    let hint = "  hint: the daemon that ran the turn was stopped; `angelia serve` \
                                starts it again";
                    self.screen.write_line(Tone::Faint, hint)?;
                }
            }
            TurnStatus::Failed(failure) => {
                self.screen.write_line(Tone::Warning, &format!("angelia: {}", failure.message))?;
                if let Some(hint) = &failure.hint {
                    self.screen.write_line(Tone::Faint, &format!("  hint: {hint}"))?;
                }
            }
            TurnStatus::Parked { resumes_at } => {
                self.screen.write_line(Tone::Warning, &format!("parked until {resumes_at}"))?;
                let hint = "  hint: `angelia serve` resumes it automatically, and so does the \
                            next turn in this session";
                self.screen.write_line(Tone::Faint, hint)?;
            }
        }
        match format_usage(&outcome.usage, elapsed) {
            Some(footer) if self.screen.is_live() => self.screen.write_line(Tone::Faint, &footer),
            _ => Ok(()),
        }
    }

    /// Prints a tool's line, with its text cut to the width that `tail` leaves.
    fn render_live(&mut self, tone: Tone, text: &str, tail: &str) -> io::Result<()> {
        if self.screen.is_live() { self.screen.write_progress(tone, text, tail) } else { Ok(()) }
    }

    /// Prints a line that matters only while a person is watching.
    fn render_progress(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        if self.screen.is_live() { self.screen.write_line(tone, text) } else { Ok(()) }
    }
}

/// Formats the tokens, the cost and the time: `3.1k in (96 % cached) · 25 out · $0.0009 · 1.4 s`.
/// Returns `None` if nothing was used.
fn format_usage(usage: &Usage, elapsed: SignedDuration) -> Option<String> {
    let tokens = usage.input_tokens
        + usage.cache_read_tokens
        + usage.cache_write_tokens
        + usage.output_tokens;
    let is_used = tokens > 0 || usage.cost_usd.is_some_and(|cost| cost > 0.0);
    is_used.then(|| format!("{} · {}", format_used(usage), format_elapsed(elapsed)))
}

/// Formats a duration: `1.4 s`, `2 min 5 s`.
pub(super) fn format_elapsed(elapsed: SignedDuration) -> String {
    let (seconds, tenths) = (elapsed.as_secs().max(0), elapsed.subsec_millis().max(0) / 100);
    match seconds {
        0..60 => format!("{seconds}.{tenths} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use angelia_core::model::{SessionId, TurnId};
    use uuid::Uuid;

    use super::*;
    use crate::cli::run::screen::ScreenFeatures;

    fn render_all(streams: bool, kinds: Vec<EventKind>) -> (String, String) {
        let mut out = Vec::new();
        let mut err = Vec::new();
        let features = ScreenFeatures { streams, live: streams, ..ScreenFeatures::default() };
        let screen = Screen::new(&mut out, &mut err, features, || None);
        let mut show = TurnRenderer::new(screen, false);
        for (seq, kind) in kinds.into_iter().enumerate() {
            let event = TurnEvent {
                turn: TurnId::from_uuid(Uuid::nil()),
                session: SessionId::from_uuid(Uuid::nil()),
                seq: seq as u64 + 1,
                at: jiff::Timestamp::UNIX_EPOCH,
                kind,
            };
            show.render_event(&event).unwrap();
        }
        drop(show);
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn delta(block: BlockId, text: &str) -> EventKind {
        EventKind::Delta { block, channel: TextChannel::Answer, text: text.into() }
    }

    fn block(block: BlockId, text: &str) -> EventKind {
        EventKind::Block { block, channel: TextChannel::Answer, text: text.into() }
    }

    fn finished(text: &str) -> EventKind {
        EventKind::Finished(Outcome {
            status: TurnStatus::Completed,
            text: Arc::from(text),
            reason: "end_turn".into(),
            usage: Usage::default(),
        })
    }

    #[test]
    fn deltas_stream_and_the_block_only_adds_what_is_missing() {
        let kinds = vec![
            delta(0, "Hel"),
            delta(0, "lo"),
            block(0, "Hello!"),
            block(1, "Two"),
            finished("Two"),
        ];
        assert_eq!(render_all(true, kinds).0, "Hello!\n\nTwo\n");
    }

    #[test]
    fn a_pipe_gets_whole_blocks_only() {
        let kinds = vec![
            delta(0, "wrong sta"),
            block(0, ""),
            delta(1, "Right"),
            block(1, "Right"),
            finished("Right"),
        ];
        let (out, err) = render_all(false, kinds);
        assert_eq!(out, "Right\n");
        assert_eq!(err, "");
    }

    #[test]
    fn withdrawn_text_is_said_to_be_withdrawn() {
        let kinds = vec![delta(0, "wrong"), block(0, ""), block(1, "right"), finished("right")];
        let (out, err) = render_all(true, kinds);
        assert_eq!(out, "wrong\nright\n");
        assert!(err.contains("withdrawn"), "{err}");
    }

    #[test]
    fn the_footer_says_what_was_used_and_nothing_if_nothing_was() {
        let usage = Usage {
            input_tokens: 4,
            cache_read_tokens: 3_000,
            cache_write_tokens: 120,
            output_tokens: 25,
            cost_usd: Some(0.0009),
            ..Usage::default()
        };
        let footer = |usage: &Usage, ms| format_usage(usage, SignedDuration::from_millis(ms));
        let expected = "3.1k in (96 % cached) · 25 out · $0.0009 · 1.4 s";
        assert_eq!(footer(&usage, 1_449).as_deref(), Some(expected));
        let plain = Usage { input_tokens: 12, output_tokens: 2_440_000, ..Usage::default() };
        assert_eq!(footer(&plain, 125_000).as_deref(), Some("12 in · 2.4M out · 2 min 5 s"));
        assert_eq!(footer(&Usage::default(), 10), None);
        let free = Usage { cost_usd: Some(0.0), ..Usage::default() };
        assert_eq!(footer(&free, 10), None);
    }

    #[test]
    fn an_answer_without_blocks_is_printed_from_the_end() {
        assert_eq!(render_all(false, vec![finished("only here")]).0, "only here\n");
    }
}
