//! Shows a turn at a terminal to its end, and puts its approvals to the person.

use std::io::Write;

use angelia_core::model::TurnStatus;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{
    OutputState, RunningTurn, SPINNER_INTERVAL,
    approval_prompt::PromptStep,
    approval_queue::ApprovalQueue,
    approval_view,
    keyboard::{Keyboard, LineInput, TypedLine},
    renderer::TurnRenderer,
    screen::Tone,
    signals::{self, StopRequest, StopSignals},
};
use crate::cli::error::CommandError;

pub(super) struct RenderedTurn<Out: Write, Err: Write> {
    pub(super) turn: RunningTurn,
    /// `None`: nobody can be asked.
    pub(super) keyboard: Option<Keyboard>,
    pub(super) show: TurnRenderer<Out, Err>,
    approvals: ApprovalQueue,
    output: OutputState,
}

impl<Out: Write, Err: Write> RenderedTurn<Out, Err> {
    pub(super) fn new(
        turn: RunningTurn,
        keyboard: Option<Keyboard>,
        show: TurnRenderer<Out, Err>,
    ) -> Self {
        let (approvals, output) = (ApprovalQueue::default(), OutputState::default());
        Self { turn, keyboard, show, approvals, output }
    }

    pub(super) async fn follow(
        mut self,
        mut signals: Option<StopSignals>,
    ) -> Result<TurnStatus, CommandError> {
        let began = Instant::now();
        let mut ticks = interval(SPINNER_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let opens_at = self.approvals.opens_at();
            tokio::select! {
                // Events come first: a decision by another client must withdraw its question before
                // a typed line is taken as the answer to it.
                biased;
                events = self.turn.next() => {
                    let events = events?;
                    for event in &*events {
                        self.output.note(self.show.render_event(event));
                        if self.keyboard.is_some() {
                            self.approvals.update(event);
                        }
                    }
                    if let Some(outcome) = events.outcome() {
                        return self.output.conclude(&outcome.status);
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
                // The spinner would overwrite the line that the person types.
                _ = ticks.tick(), if self.approvals.is_empty() => {
                    self.output.note(self.show.tick(began.elapsed().as_secs()));
                }
            }
            self.ask();
        }
    }

    async fn stop(&mut self, request: StopRequest) {
        let text = match request {
            StopRequest::Interrupt => "interrupting … (Ctrl-C again to kill)",
            StopRequest::Kill => "killing …",
        };
        self.output.note(self.show.screen.write_line(Tone::Warning, text));
        self.turn.stop(request == StopRequest::Kill).await;
    }

    /// Shows the question that is next, and writes the prompt where it is missing.
    fn ask(&mut self) {
        let screen = &mut self.show.screen;
        if let Some(prompt) = self.approvals.take_hidden(Instant::now()) {
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

    /// Handles a typed line; one that was typed before the question could be answered is dropped.
    async fn handle_line(&mut self, line: &TypedLine) {
        let Some(prompt) = self.approvals.answered_by(line) else {
            return;
        };
        let text = match &line.input {
            LineInput::Text(text) => text.as_str(),
            LineInput::EndOfInput => {
                self.turn.stop(false).await;
                return;
            }
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
                self.output.note(approval_view::write_whole_diff(screen, &prompt.approval));
            }
        }
    }
}

/// Waits for a typed line; forever without a keyboard.
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
