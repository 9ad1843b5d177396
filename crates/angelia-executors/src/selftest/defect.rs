//! The result of a check.

use angelia_core::model::Failure;

/// A wrong or missing behaviour of an agent, described for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Defect {
    words: String,
    is_start: bool,
}

impl Defect {
    pub fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), is_start: false }
    }

    /// Creates the defect of an agent that did not start, so that no other check can pass either.
    pub(super) fn of_start(failure: Failure) -> Self {
        Self { is_start: true, ..Self::from(failure) }
    }

    pub fn is_start(&self) -> bool {
        self.is_start
    }
}

impl From<Failure> for Defect {
    fn from(failure: Failure) -> Self {
        Self::new(match &failure.hint {
            Some(hint) => format!("{}; {hint}", failure.message),
            None => failure.message.to_string(),
        })
    }
}

/// The result of a check without a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    Passed,
    /// The check does not apply, for this reason.
    NotApplicable(&'static str),
}

pub type CheckResult = Result<CheckOutcome, Defect>;

/// Returns a [`Defect`] from the function unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err($crate::selftest::Defect::new(format!($($words)+)));
        }
    };
}

pub(super) use ensure;
