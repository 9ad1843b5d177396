//! The end of a turn.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Failure, Usage};

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub status: TurnStatus,
    /// The answer; for a failed or partial turn, the part that exists.
    pub text: Arc<str>,
    /// Why the turn ended, in a few words: `end_turn`, `budget_seconds`, `interrupted by owner` …
    pub reason: Arc<str>,
    pub usage: Usage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    Completed,
    /// A budget ended the turn, but the text is usable.
    Partial,
    Interrupted,
    Failed(Failure),
    /// The turn waits for a quota to reset.
    Parked {
        resumes_at: Timestamp,
    },
}

impl TurnStatus {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Partial => "partial",
            Self::Interrupted => "interrupted",
            Self::Failed(_) => "failed",
            Self::Parked { .. } => "parked",
        }
    }

    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}
