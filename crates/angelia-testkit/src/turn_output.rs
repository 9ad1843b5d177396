//! The output of an agent during one turn, with accessors that panic if something that a test
//! expects is missing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::ops::Deref;

use angelia_core::model::{AgentStart, Failure, NativeSessionId, TurnStatus, Usage};
use angelia_executors::selftest::TurnTrace;

/// Everything that an agent emitted during a turn, and how the turn ended.
#[derive(Debug)]
pub struct TurnOutput(pub TurnTrace);

impl Deref for TurnOutput {
    type Target = TurnTrace;

    fn deref(&self) -> &TurnTrace {
        &self.0
    }
}

impl TurnOutput {
    /// Returns the answer. Panics unless the turn completed.
    pub fn answer(&self) -> &str {
        assert_eq!(self.outcome.status, TurnStatus::Completed, "{self:#?}");
        self.outcome.text.as_deref().unwrap()
    }

    /// Returns the answer of a completed turn: the outcome's text, or else the answer blocks.
    pub fn answer_or_blocks(&self) -> String {
        self.completed_answer().unwrap_or_else(|_| panic!("it did not complete: {self:#?}"))
    }

    pub fn failure(&self) -> &Failure {
        match self.outcome.status.failure() {
            Some(failure) => failure,
            None => panic!("it did not fail: {self:#?}"),
        }
    }

    pub fn started(&self) -> &AgentStart {
        match self.start() {
            Some(started) => started,
            None => panic!("it did not start: {self:#?}"),
        }
    }

    pub fn native_session_id(&self) -> NativeSessionId {
        self.started().native_session_id.clone().unwrap()
    }

    /// Returns the last usage.
    pub fn usage(&self) -> &Usage {
        self.usages().last().unwrap()
    }
}
