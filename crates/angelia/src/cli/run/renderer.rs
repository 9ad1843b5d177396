//! Renders a turn for a person as it happens: the answer, the agent's tool calls, and the cost.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, Write},
};

use angelia_core::model::{
    Approval, ApprovalKind, BlockId, EventKind, NoticeLevel, Outcome, PlanStatus, TextChannel,
    ToolClass, ToolId, TurnEvent, TurnStatus, Usage,
};

use super::screen::{Screen, Tone};

pub(crate) struct TurnRenderer<Out: Write, Err: Write> {
    pub(crate) screen: Screen<Out, Err>,
    /// The text printed so far of each open block of the answer.
    printed: HashMap<BlockId, String>,
    /// At least one block of the answer has been printed completely.
    has_printed_block: bool,
    tools: HashMap<ToolId, String>,
    label: String,
}

impl<Out: Write, Err: Write> TurnRenderer<Out, Err> {
    pub(crate) fn new(screen: Screen<Out, Err>) -> Self {
        Self {
            screen,
            printed: HashMap::new(),
            has_printed_block: false,
            tools: HashMap::new(),
            label: "starting".to_owned(),
        }
    }

    pub(crate) fn render_event(&mut self, event: &TurnEvent) -> io::Result<()> {
        match &event.kind {
            EventKind::Started(started) => {
                "thinking".clone_into(&mut self.label);
                if self.screen.live {
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
                // Most titles already begin with the tool's name; a command line does not.
                let title = match call.class {
                    ToolClass::Execute if !call.title.starts_with(&*call.name) => {
                        format!("{} {}", call.name, call.title)
                    }
                    _ => call.title.to_string(),
                };
                self.label.clone_from(&title);
                self.tools.insert(call.id.clone(), title.clone());
                let indent = if call.parent.is_some() { "  " } else { "" };
                self.render_progress(Tone::Faint, &format!("{indent}• {title}"))
            }
            EventKind::ToolResult(result) => {
                "thinking".clone_into(&mut self.label);
                let title = self.tools.remove(&result.id).unwrap_or_default();
                if result.ok {
                    return Ok(());
                }
                let why = result.output.lines().next().unwrap_or_default();
                self.render_progress(Tone::Warning, &format!("✗ {title}: {why}"))
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
            EventKind::Approval(approval) => self.render_approval(approval),
            EventKind::Resolved(resolution) => {
                let line = format!("→ {} (by {})", resolution.verdict.as_str(), resolution.by);
                self.render_progress(Tone::Faint, &line)
            }
            // Reasoning, usage and native events are only in the output of `--json`.
            EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::Usage(_)
            | EventKind::Native { .. } => Ok(()),
            EventKind::Finished(outcome) => self.render_outcome(outcome),
        }
    }

    /// Advances the spinner; called several times a second while no event arrives.
    pub(crate) fn tick(&mut self, seconds: u64) -> io::Result<()> {
        let label = format!("{} … {seconds} s", self.label);
        self.screen.spin(&label)
    }

    fn render_delta(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        if !self.screen.streams {
            return Ok(());
        }
        if !self.printed.contains_key(&block) {
            self.separate_blocks()?;
        }
        self.printed.entry(block).or_default().push_str(text);
        self.screen.write_text(text)
    }

    /// Completes a block. Its final text wins over the deltas: missing text is added, and text that
    /// differs is printed again.
    fn render_block(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        let printed = self.printed.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(printed.as_str()).filter(|_| !text.is_empty()) {
            if printed.is_empty() {
                self.separate_blocks()?;
            }
            self.screen.write_text(rest)?;
        } else if !printed.is_empty() {
            let what = "(the text above was withdrawn by the agent)";
            self.screen.write_line(Tone::Warning, what)?;
            self.screen.write_text(text)?;
        }
        if !text.is_empty() {
            self.has_printed_block = true;
            self.screen.end_line()?;
        }
        Ok(())
    }

    /// Separates the blocks of the answer by an empty line, like paragraphs.
    fn separate_blocks(&mut self) -> io::Result<()> {
        self.screen.end_line()?;
        if self.has_printed_block { self.screen.write_text("\n") } else { Ok(()) }
    }

    fn render_approval(&mut self, approval: &Approval) -> io::Result<()> {
        self.screen.write_line(Tone::Bold, &format!("? {}", approval.title))?;
        let questions = match &approval.kind {
            ApprovalKind::Tool => return self.screen.write_line(Tone::Faint, &approval.detail),
            ApprovalKind::Question(questions) => questions,
        };
        for question in questions.iter() {
            if question.text != approval.title {
                self.screen.write_line(Tone::Bold, &question.text)?;
            }
            for (index, option) in question.options.iter().enumerate() {
                let line = format!("  {}. {}  {}", index + 1, option.label, option.description);
                self.screen.write_line(Tone::Faint, &line)?;
            }
        }
        Ok(())
    }

    fn render_outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        // An agent that sends no blocks has its whole answer in the outcome.
        if !self.has_printed_block && self.printed.is_empty() && !outcome.text.is_empty() {
            self.screen.write_text(&outcome.text)?;
        }
        self.screen.close()?;
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
        if self.screen.live {
            let footer = format_usage(&outcome.usage);
            self.screen.write_line(Tone::Faint, &footer)?;
        }
        Ok(())
    }

    /// Prints a line that only matters while a person watches.
    fn render_progress(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        if self.screen.live { self.screen.write_line(tone, text) } else { Ok(()) }
    }
}

/// Formats the tokens and the cost, as far as they are known.
fn format_usage(usage: &Usage) -> String {
    let mut text = format!(
        "{} in, {} out, cache {} read, {} written",
        usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
    );
    if let Some(cost) = usage.cost_usd {
        // Writing to a string cannot fail.
        let _infallible = write!(text, " · ${cost:.4}");
    }
    if let Some(lane) = &usage.lane {
        let _infallible = write!(text, " · {lane}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use angelia_core::model::{SessionId, TurnId};
    use uuid::Uuid;

    use super::*;

    fn render_all(streams: bool, kinds: Vec<EventKind>) -> (String, String) {
        let mut out = Vec::new();
        let mut err = Vec::new();
        let screen = Screen::new(&mut out, &mut err, streams, streams, false);
        let mut show = TurnRenderer::new(screen);
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
    fn an_answer_without_blocks_is_printed_from_the_end() {
        assert_eq!(render_all(false, vec![finished("only here")]).0, "only here\n");
    }
}
