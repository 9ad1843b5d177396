//! Shows a turn at a terminal until it ends, and asks the person to decide its approvals.

use std::{io::Write, sync::Arc};

use angelia_core::model::{Approval, EventKind, ToolResult, TurnStatus};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{
    OutputState, RunningTurn, SPINNER_INTERVAL,
    approval_prompt::PromptStep,
    approval_queue::ApprovalQueue,
    approval_view,
    desktop_notice::{DesktopNotifier, QUESTION_PATIENCE},
    keyboard::{Keyboard, LineInput, TypedLine},
    renderer::TurnRenderer,
    screen::Tone,
    signals::{self, StopRequest, StopSignals},
};
use crate::cli::error::CommandError;

pub(super) struct RenderedTurn<Out: Write, Err: Write> {
    pub(super) turn: RunningTurn,
    /// `None` if there is no person to ask.
    pub(super) keyboard: Option<Keyboard>,
    pub(super) show: TurnRenderer<Out, Err>,
    approvals: ApprovalQueue,
    output: OutputState,
    notifier: Option<DesktopNotifier>,
    /// When to notify a person who has not answered a waiting question.
    notifies_at: Option<Instant>,
    /// The diff of the last edit, whether the person was asked about it or not.
    last_edit: Option<Arc<str>>,
    typed_ahead: Vec<String>,
}

/// The end of a turn that was shown to a person.
#[derive(Debug)]
pub(crate) struct RenderedEnd {
    pub(crate) status: TurnStatus,
    /// The lines that the person typed in the meantime, other than answers and commands.
    pub(crate) typed_ahead: Vec<String>,
}

impl<Out: Write, Err: Write> RenderedTurn<Out, Err> {
    pub(super) fn new(
        turn: RunningTurn,
        keyboard: Option<Keyboard>,
        show: TurnRenderer<Out, Err>,
        notifier: Option<DesktopNotifier>,
    ) -> Self {
        Self {
            turn,
            keyboard,
            show,
            approvals: ApprovalQueue::default(),
            output: OutputState::default(),
            notifier,
            notifies_at: None,
            last_edit: None,
            typed_ahead: Vec::new(),
        }
    }

    pub(super) async fn follow(
        mut self,
        mut signals: Option<StopSignals>,
    ) -> Result<RenderedEnd, CommandError> {
        let began = Instant::now();
        let mut ticks = interval(SPINNER_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let opens_at = self.approvals.opens_at();
            tokio::select! {
                // Events come first: a decision by another client must withdraw the question before
                // a typed line is taken as its answer.
                biased;
                events = self.turn.next() => {
                    let events = events?;
                    for event in &*events {
                        self.output.note(self.show.render_event(event));
                        if self.keyboard.is_some() {
                            self.approvals.update(event);
                        }
                        if let EventKind::Approval(Approval { diff: Some(diff), .. })
                        | EventKind::ToolResult(ToolResult { diff: Some(diff), .. }) = &event.kind
                        {
                            self.last_edit = Some(Arc::clone(diff));
                        }
                    }
                    if let Some(outcome) = events.outcome() {
                        if let Some(notifier) = &self.notifier {
                            notifier.turn_ended(&outcome.status, began.elapsed()).await;
                        }
                        return self.end(&outcome.status).await;
                    }
                    if !self.output.is_open() {
                        self.turn.stop(false).await;
                    }
                }
                request = signals::next_stop(&mut signals) => self.stop(request).await,
                line = next_line(&mut self.keyboard) => {
                    if let Some(line) = line {
                        self.handle_line(&line).await;
                    } else {
                        // The terminal is closed, so approvals can no longer be answered.
                        self.keyboard = None;
                        self.turn.stop(false).await;
                    }
                }
                () = wait_until(opens_at) => {
                    if let Some(keyboard) = &self.keyboard {
                        keyboard.drop_pending();
                    }
                    self.approvals.open(Instant::now());
                }
                () = wait_until(self.notifies_at) => {
                    self.notifies_at = None;
                    if let Some(notifier) = &self.notifier {
                        notifier.question_waits().await;
                    }
                }
                // The spinner would overwrite the line that the person is typing.
                _ = ticks.tick(), if self.approvals.is_empty() => {
                    self.output.note(self.show.tick(began.elapsed().as_secs()));
                }
            }
            self.ask();
        }
    }

    async fn end(mut self, status: &TurnStatus) -> Result<RenderedEnd, CommandError> {
        let status = self.output.conclude(status)?;
        if let Some(keyboard) = self.keyboard.take() {
            self.typed_ahead.extend(keyboard.into_lines().await);
        }
        Ok(RenderedEnd { status, typed_ahead: self.typed_ahead })
    }

    async fn stop(&mut self, request: StopRequest) {
        let text = match request {
            StopRequest::Interrupt => "interrupting … (Ctrl-C again to kill)",
            StopRequest::Kill => "killing …",
        };
        self.output.note(self.show.screen.write_line(Tone::Warning, text));
        self.turn.stop(request == StopRequest::Kill).await;
    }

    /// Shows the next question, and writes the prompt if it is missing.
    fn ask(&mut self) {
        let screen = &mut self.show.screen;
        if self.approvals.is_empty() {
            self.notifies_at = None;
        }
        if let Some(prompt) = self.approvals.take_hidden(Instant::now()) {
            self.notifies_at = Some(Instant::now() + QUESTION_PATIENCE);
            self.output.note(match prompt.question() {
                None => approval_view::write_tool(screen, &prompt.approval),
                Some(question) => approval_view::write_question(screen, question),
            });
        }
        if let Some(prompt) = self.approvals.opened()
            && !screen.is_at_prompt()
        {
            self.output.note(screen.write_prompt(prompt.prompt()));
        }
    }

    /// Handles a typed line. Drops one that was typed before the question could be answered.
    async fn handle_line(&mut self, line: &TypedLine) {
        let text = match &line.input {
            LineInput::Text(text) => text.as_str(),
            LineInput::EndOfInput if self.approvals.answered_by(line).is_some() => {
                self.turn.stop(false).await;
                return;
            }
            LineInput::EndOfInput => return,
        };
        if self.approvals.is_empty() {
            self.handle_unasked(text).await;
            return;
        }
        let Some(prompt) = self.approvals.answered_by(line) else {
            return;
        };
        let screen = &mut self.show.screen;
        screen.end_prompt();
        match prompt.handle_line(text) {
            PromptStep::Decided(decision) => {
                let id = prompt.approval.id;
                self.approvals.remove_first();
                self.turn.decide(id, decision).await;
            }
            PromptStep::NextQuestion => self.approvals.next_question(),
            PromptStep::Unclear => {}
            PromptStep::Explain => {
                self.output.note(approval_view::write_explanation(screen, &prompt.approval));
            }
            PromptStep::ShowDiff => {
                if let Some(diff) = &prompt.approval.diff {
                    self.output.note(approval_view::write_whole_diff(screen, diff));
                }
            }
        }
    }
}

impl<Out: Write, Err: Write> RenderedTurn<Out, Err> {
    /// Handles a line that was typed while no question was open.
    async fn handle_unasked(&mut self, text: &str) {
        match text.trim() {
            "/stop" => self.stop(StopRequest::Interrupt).await,
            "d" | "/diff" => {
                let screen = &mut self.show.screen;
                self.output.note(match &self.last_edit {
                    Some(diff) => approval_view::write_whole_diff(screen, diff),
                    None => screen.write_line(Tone::Faint, "nothing has been edited so far"),
                });
            }
            text => self.typed_ahead.push(text.to_owned()),
        }
    }
}

/// Waits for a typed line, or forever if there is no keyboard.
async fn next_line(keyboard: &mut Option<Keyboard>) -> Option<TypedLine> {
    match keyboard {
        Some(keyboard) => keyboard.next_line().await,
        None => std::future::pending().await,
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
