//! Abstracts over the place where the turns of a bridge run: this process or a daemon.

use std::{fmt, ops::Deref};

use angelia_core::{
    engine::EventBatch,
    model::{ApprovalId, Decision, FailureKind, TurnEvent, TurnId},
    ports::BoxFuture,
};

use super::{BridgeErrorCode, RunInfo, RunSpec};

pub trait TurnBackend: Send + Sync + 'static {
    /// Finds or creates the session of a run, and submits its turn.
    fn begin<'a>(&'a self, ask: &'a RunSpec) -> BoxFuture<'a, Result<AcceptedTurn, BridgeError>>;

    /// Asks a turn to stop. A turn that has already ended is no failure.
    fn interrupt(&self, turn: TurnId) -> BoxFuture<'_, ()>;

    fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<(), BridgeError>>;
}

/// A turn that was accepted, and its events.
pub struct AcceptedTurn {
    pub turn: TurnId,
    pub about: RunInfo,
    /// A notice about a setting that the session keeps although the bridge's flags ask for another.
    pub settings_notice: Option<String>,
    pub events: Box<dyn TurnEventSource>,
}

impl fmt::Debug for AcceptedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptedTurn")
            .field("turn", &self.turn)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// The events of a turn, from the first one.
pub trait TurnEventSource: Send {
    /// Waits for events and returns all that have come; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<BridgeEventBatch>, BridgeError>>;
}

/// Consecutive events, from the engine of this process or from a daemon.
#[derive(Debug)]
pub enum BridgeEventBatch {
    Local(EventBatch),
    Remote(Vec<TurnEvent>),
}

impl Deref for BridgeEventBatch {
    type Target = [TurnEvent];

    fn deref(&self) -> &[TurnEvent] {
        match self {
            Self::Local(batch) => batch,
            Self::Remote(events) => events,
        }
    }
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BridgeError {
    pub code: BridgeErrorCode,
    pub message: String,
}

impl BridgeError {
    pub fn new(code: BridgeErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

impl From<FailureKind> for BridgeErrorCode {
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
