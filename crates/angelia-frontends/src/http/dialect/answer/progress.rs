//! The progress of an answer, and the meaning of a turn that ended without one.

use angelia_core::{
    model::{Failure, FailureKind, Outcome, TurnStatus},
    ports::UNKNOWN_MODEL_REASON,
};

/// The state of the answer after an event.
#[derive(Clone, Debug)]
pub enum AnswerProgress {
    More,
    /// The answer is complete: `End` was the last chunk.
    Over,
    /// The answer reached its length limit or a stop word. The turn still runs, but its output is
    /// no longer wanted.
    Cut,
    /// The turn failed before anything was emitted.
    Failed(Failure),
    /// The turn failed before anything was emitted, because there is no such model.
    UnknownModel(Failure),
    /// The turn failed because its agent could not be started.
    NotStarted(Failure),
    /// The turn was interrupted before anything was emitted.
    Interrupted,
}

impl AnswerProgress {
    /// Returns the meaning of the outcome of a turn that emitted nothing, or `None` if it has an
    /// answer. If a restart or crash ended the turn, the agent is not to blame.
    pub(super) fn of_silent_turn(outcome: &Outcome, is_agent_started: bool) -> Option<Self> {
        let reason = &*outcome.reason;
        match &outcome.status {
            TurnStatus::Failed(failure) => Some(match failure.clone() {
                failure if reason == UNKNOWN_MODEL_REASON => Self::UnknownModel(failure),
                failure if !is_agent_started && reason == FailureKind::Unavailable.as_str() => {
                    Self::NotStarted(failure)
                }
                failure => Self::Failed(failure),
            }),
            TurnStatus::Interrupted => Some(Self::Interrupted),
            TurnStatus::Completed | TurnStatus::Partial | TurnStatus::Parked { .. } => None,
        }
    }
}
