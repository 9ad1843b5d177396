//! The approvals that wait for the person at the terminal, and the moment from which a typed line
//! counts as an answer.
//!
//! A question may appear while the person is typing something else. It is therefore shown first and
//! opened a moment later, and text typed before that is dropped.

use std::{collections::VecDeque, time::Duration};

use angelia_core::model::{EventKind, TurnEvent};
use tokio::time::Instant;

use super::{approval_prompt::ApprovalPrompt, keyboard::TypedLine};

/// How long a question is shown before it can be answered.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(300);

#[derive(Debug, Default)]
pub(crate) struct ApprovalQueue {
    /// The first is being asked.
    prompts: VecDeque<ApprovalPrompt>,
    stage: PromptStage,
}

/// The progress of the first question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PromptStage {
    #[default]
    Hidden,
    /// Shown; keys are ignored.
    Shown { opens_at: Instant },
    /// Lines typed from now on answer the question.
    Open { since: Instant },
}

impl ApprovalQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.prompts.is_empty()
    }

    /// Adds a requested approval, and removes one that has been decided, even by another client.
    pub(crate) fn update(&mut self, event: &TurnEvent) {
        match &event.kind {
            EventKind::Approval(approval) => {
                self.prompts.push_back(ApprovalPrompt::new(approval.clone()));
            }
            EventKind::Resolved(resolution) => {
                let is_first =
                    self.prompts.front().is_some_and(|one| one.approval.id == resolution.id);
                self.prompts.retain(|one| one.approval.id != resolution.id);
                if is_first {
                    self.stage = PromptStage::Hidden;
                }
            }
            _ => {}
        }
    }

    /// Returns the question to show now, and starts the delay after which it can be answered.
    pub(crate) fn take_hidden(&mut self, now: Instant) -> Option<&ApprovalPrompt> {
        if self.stage != PromptStage::Hidden {
            return None;
        }
        let first = self.prompts.front()?;
        self.stage = PromptStage::Shown { opens_at: now + SETTLE_TIME };
        Some(first)
    }

    /// Returns when the shown question can be answered.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        match self.stage {
            PromptStage::Shown { opens_at } if !self.prompts.is_empty() => Some(opens_at),
            _ => None,
        }
    }

    /// Treats lines typed from now on as answers.
    pub(crate) fn open(&mut self, now: Instant) {
        self.stage = PromptStage::Open { since: now };
    }

    /// Returns the question that can be answered.
    pub(crate) fn opened(&self) -> Option<&ApprovalPrompt> {
        matches!(self.stage, PromptStage::Open { .. }).then(|| self.prompts.front()).flatten()
    }

    /// Returns the question that a typed line answers, or `None` if the line was typed too early.
    pub(crate) fn answered_by(&mut self, line: &TypedLine) -> Option<&mut ApprovalPrompt> {
        match self.stage {
            PromptStage::Open { since } if line.at >= since => self.prompts.front_mut(),
            _ => None,
        }
    }

    /// Makes the next question of the first approval appear.
    pub(crate) fn next_question(&mut self) {
        self.stage = PromptStage::Hidden;
    }

    /// Removes the first approval because the person has decided it.
    pub(crate) fn remove_first(&mut self) {
        self.prompts.pop_front();
        self.stage = PromptStage::Hidden;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::run::{approval_prompt::tests::tool_approval, keyboard::LineInput};

    fn requested() -> TurnEvent {
        TurnEvent {
            turn: angelia_core::model::TurnId::from_uuid(uuid::Uuid::nil()),
            session: angelia_core::model::SessionId::from_uuid(uuid::Uuid::nil()),
            seq: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            kind: EventKind::Approval(tool_approval()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_typed_before_a_question_opens_does_not_answer_it() {
        let yes = || TypedLine { at: Instant::now(), input: LineInput::Text("y".to_owned()) };
        let mut queue = ApprovalQueue::default();
        let before = yes();
        queue.update(&requested());
        queue.update(&requested());
        for _ in 0..2 {
            assert!(queue.take_hidden(Instant::now()).is_some());
            let opens_at = queue.opens_at().unwrap();
            assert_eq!(opens_at, Instant::now() + SETTLE_TIME);
            let meanwhile = yes();
            assert!(queue.answered_by(&meanwhile).is_none());
            tokio::time::advance(SETTLE_TIME).await;
            queue.open(Instant::now());
            for early in [&before, &meanwhile] {
                assert!(queue.answered_by(early).is_none(), "it was typed before");
            }
            assert!(queue.answered_by(&yes()).is_some());
            // The next question is shown and opened in the same way.
            queue.remove_first();
        }
        assert!(queue.is_empty() && queue.take_hidden(Instant::now()).is_none());
    }
}
