//! Renders a turn for a person as it happens: the answer, the agent's tool calls, and the cost.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, Write},
};

use angelia_core::model::{
    Approval, ApprovalKind, BlockId, EventKind, Level, Outcome, PlanStatus, Status, TextChannel,
    ToolClass, ToolId, TurnEvent, Usage,
};

use super::screen::{Screen, Tone};

pub(crate) struct Show<Out: Write, Err: Write> {
    pub(crate) screen: Screen<Out, Err>,
    /// The text printed so far of each open block of the answer.
    printed: HashMap<BlockId, String>,
    /// At least one block of the answer has been printed completely.
    said_something: bool,
    tools: HashMap<ToolId, String>,
    label: String,
}

impl<Out: Write, Err: Write> Show<Out, Err> {
    pub(crate) fn new(screen: Screen<Out, Err>) -> Self {
        Self {
            screen,
            printed: HashMap::new(),
            said_something: false,
            tools: HashMap::new(),
            label: "starting".to_owned(),
        }
    }

    pub(crate) fn event(&mut self, event: &TurnEvent) -> io::Result<()> {
        match &event.kind {
            EventKind::Started(started) => {
                "thinking".clone_into(&mut self.label);
                if self.screen.live {
                    let model = started.model.as_deref().unwrap_or("its default model");
                    let from = if started.resumed { ", resumed" } else { "" };
                    let line = format!("{} · {model}{from}", started.executor);
                    self.screen.line(Tone::Faint, &line)?;
                }
                Ok(())
            }
            EventKind::Delta { block, channel: TextChannel::Answer, text } => {
                self.delta(*block, text)
            }
            EventKind::Block { block, channel: TextChannel::Answer, text } => {
                self.block(*block, text)
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
                self.progress(Tone::Faint, &format!("{indent}• {title}"))
            }
            EventKind::ToolResult(result) => {
                "thinking".clone_into(&mut self.label);
                let title = self.tools.remove(&result.id).unwrap_or_default();
                if result.ok {
                    return Ok(());
                }
                let why = result.output.lines().next().unwrap_or_default();
                self.progress(Tone::Warning, &format!("✗ {title}: {why}"))
            }
            EventKind::Plan(plan) => {
                for item in &plan.items {
                    let mark = match item.status {
                        PlanStatus::Pending => "☐",
                        PlanStatus::InProgress => "▸",
                        PlanStatus::Completed => "☑",
                    };
                    self.progress(Tone::Faint, &format!("  {mark} {}", item.text))?;
                }
                Ok(())
            }
            EventKind::Notice(notice) => match notice.level {
                Level::Info => self.progress(Tone::Faint, &notice.text),
                Level::Warning => self.screen.line(Tone::Warning, &notice.text),
            },
            EventKind::Approval(approval) => self.approval(approval),
            EventKind::Resolved(resolution) => {
                let line = format!("→ {} (by {})", resolution.verdict.as_str(), resolution.by);
                self.progress(Tone::Faint, &line)
            }
            // Reasoning, usage and native events are only in the output of `--json`.
            EventKind::Delta { .. }
            | EventKind::Block { .. }
            | EventKind::Usage(_)
            | EventKind::Native { .. } => Ok(()),
            EventKind::Finished(outcome) => self.finished(outcome),
        }
    }

    /// Advances the spinner; called several times a second while no event arrives.
    pub(crate) fn idle(&mut self, seconds: u64) -> io::Result<()> {
        let label = format!("{} … {seconds} s", self.label);
        self.screen.spin(&label)
    }

    fn delta(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        if !self.screen.streams {
            return Ok(());
        }
        if !self.printed.contains_key(&block) {
            self.separate()?;
        }
        self.printed.entry(block).or_default().push_str(text);
        self.screen.text(text)
    }

    /// Completes a block. Its final text wins over the deltas: missing text is added, and text that
    /// differs is printed again.
    fn block(&mut self, block: BlockId, text: &str) -> io::Result<()> {
        let printed = self.printed.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(printed.as_str()).filter(|_| !text.is_empty()) {
            if printed.is_empty() {
                self.separate()?;
            }
            self.screen.text(rest)?;
        } else if !printed.is_empty() {
            let what = "(the text above was withdrawn by the agent)";
            self.screen.line(Tone::Warning, what)?;
            self.screen.text(text)?;
        }
        if !text.is_empty() {
            self.said_something = true;
            self.screen.end_line()?;
        }
        Ok(())
    }

    /// Separates the blocks of the answer by an empty line, like paragraphs.
    fn separate(&mut self) -> io::Result<()> {
        self.screen.end_line()?;
        if self.said_something { self.screen.text("\n") } else { Ok(()) }
    }

    fn approval(&mut self, approval: &Approval) -> io::Result<()> {
        self.screen.line(Tone::Bold, &format!("? {}", approval.title))?;
        let questions = match &approval.kind {
            ApprovalKind::Tool => return self.screen.line(Tone::Faint, &approval.detail),
            ApprovalKind::Question(questions) => questions,
        };
        for question in questions.iter() {
            if question.text != approval.title {
                self.screen.line(Tone::Bold, &question.text)?;
            }
            for (index, option) in question.options.iter().enumerate() {
                let line = format!("  {}. {}  {}", index + 1, option.label, option.description);
                self.screen.line(Tone::Faint, &line)?;
            }
        }
        Ok(())
    }

    fn finished(&mut self, outcome: &Outcome) -> io::Result<()> {
        // An agent that sends no blocks has its whole answer in the outcome.
        if !self.said_something && self.printed.is_empty() && !outcome.text.is_empty() {
            self.screen.text(&outcome.text)?;
        }
        self.screen.close()?;
        match &outcome.status {
            Status::Completed => {}
            Status::Partial => {
                self.screen.line(Tone::Warning, &format!("partial answer: {}", outcome.reason))?;
            }
            Status::Interrupted => {
                let line = match &*outcome.reason {
                    "interrupted" => "interrupted".to_owned(),
                    reason => format!("interrupted: {reason}"),
                };
                self.screen.line(Tone::Warning, &line)?;
            }
            Status::Failed(failure) => {
                self.screen.line(Tone::Warning, &format!("angelia: {}", failure.message))?;
                if let Some(hint) = &failure.hint {
                    self.screen.line(Tone::Faint, &format!("  hint: {hint}"))?;
                }
            }
            Status::Parked { resumes_at } => {
                self.screen.line(Tone::Warning, &format!("parked until {resumes_at}"))?;
                let hint = "  hint: `angelia serve` resumes it automatically, and so does the \
                            next turn in this session";
                self.screen.line(Tone::Faint, hint)?;
            }
        }
        if self.screen.live {
            let footer = footer(&outcome.usage);
            self.screen.line(Tone::Faint, &footer)?;
        }
        Ok(())
    }

    /// Prints a line that only matters while a person watches.
    fn progress(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        if self.screen.live { self.screen.line(tone, text) } else { Ok(()) }
    }
}

/// Formats the tokens and the cost, as far as they are known.
fn footer(usage: &Usage) -> String {
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

    fn shown(streams: bool, kinds: Vec<EventKind>) -> (String, String) {
        let mut out = Vec::new();
        let mut err = Vec::new();
        let screen = Screen::new(&mut out, &mut err, streams, streams, false);
        let mut show = Show::new(screen);
        for (seq, kind) in kinds.into_iter().enumerate() {
            let event = TurnEvent {
                turn: TurnId::from_uuid(Uuid::nil()),
                session: SessionId::from_uuid(Uuid::nil()),
                seq: seq as u64 + 1,
                at: jiff::Timestamp::UNIX_EPOCH,
                kind,
            };
            show.event(&event).unwrap();
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
            status: Status::Completed,
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
        assert_eq!(shown(true, kinds).0, "Hello!\n\nTwo\n");
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
        let (out, err) = shown(false, kinds);
        assert_eq!(out, "Right\n");
        assert_eq!(err, "");
    }

    #[test]
    fn withdrawn_text_is_said_to_be_withdrawn() {
        let kinds = vec![delta(0, "wrong"), block(0, ""), block(1, "right"), finished("right")];
        let (out, err) = shown(true, kinds);
        assert_eq!(out, "wrong\nright\n");
        assert!(err.contains("withdrawn"), "{err}");
    }

    #[test]
    fn an_answer_without_blocks_is_printed_from_the_end() {
        assert_eq!(shown(false, vec![finished("only here")]).0, "only here\n");
    }
}
