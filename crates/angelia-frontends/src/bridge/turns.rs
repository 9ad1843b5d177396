//! Where the turns of a bridge run: in this process, or in a daemon.

use std::{fmt, ops::Deref};

use angelia_core::{
    engine::EventBatch,
    model::{ApprovalId, Decision, FailureKind, TurnEvent, TurnId},
    ports::BoxFuture,
};

use super::{About, Ask, Code};

pub trait Turns: Send + Sync + 'static {
    /// Finds or makes the session of a run, and submits its turn.
    fn begin<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Begun, Refused>>;

    /// Asks a turn to stop. That it is over already is no failure.
    fn interrupt(&self, turn: TurnId) -> BoxFuture<'_, ()>;

    fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<(), Refused>>;
}

/// A turn that was accepted.
pub struct Begun {
    pub turn: TurnId,
    pub about: About,
    /// What the session keeps although the bridge's flags say something else.
    pub keeps: Option<String>,
    pub events: Box<dyn Events>,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun")
            .field("turn", &self.turn)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// The events of a turn from its first one.
pub trait Events: Send {
    /// As many as have come; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Batch>, Refused>>;
}

/// Events in order, wherever they came from.
#[derive(Debug)]
pub enum Batch {
    Here(EventBatch),
    Elsewhere(Vec<TurnEvent>),
}

impl Deref for Batch {
    type Target = [TurnEvent];

    fn deref(&self) -> &[TurnEvent] {
        match self {
            Self::Here(batch) => batch,
            Self::Elsewhere(events) => events,
        }
    }
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub code: Code,
    pub message: String,
}

impl Refused {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

impl From<FailureKind> for Code {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Auth => Self::NotLoggedIn,
            FailureKind::RateLimited => Self::RateLimited,
            FailureKind::Unavailable | FailureKind::Timeout | FailureKind::Agent => {
                Self::Unavailable
            }
            FailureKind::Invalid | FailureKind::Refused => Self::Invalid,
            FailureKind::Internal => Self::Internal,
        }
    }
}
