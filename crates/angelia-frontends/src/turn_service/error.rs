//! The errors of a turn service, the same for both implementations. Each frontend has one table
//! from [`TurnErrorKind`] to its own codes.

use angelia_core::{
    engine::EngineError,
    model::{Failure, FailureKind},
    ports::StoreError,
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct TurnServiceError {
    pub kind: TurnErrorKind,
    pub message: String,
    /// Advice on how to solve the problem.
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnErrorKind {
    Failed(FailureKind),
    NotFound,
    /// Another process holds the session.
    SessionHeld,
    QueueFull,
    /// The operation needs a session without a running turn.
    TurnRunning,
    /// The idempotency key was used for another request.
    KeyReused,
    NotRunning,
    /// The approval is already decided, or its turn is over.
    NotPending,
    ShuttingDown,
    /// There is no daemon: the request was not sent.
    Unreachable,
    /// The daemon did not answer; it may have received the request.
    ConnectionLost,
    /// The daemon's answer cannot be understood.
    BadResponse,
}

impl TurnServiceError {
    pub fn new(kind: TurnErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Failure> for TurnServiceError {
    fn from(failure: Failure) -> Self {
        Self {
            kind: TurnErrorKind::Failed(failure.kind),
            message: failure.message.to_string(),
            hint: failure.hint.map(|hint| hint.to_string()),
        }
    }
}

impl From<EngineError> for TurnServiceError {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::Store(
                StoreError::Held(_) | StoreError::LeaseLost | StoreError::Conflict,
            ) => TurnErrorKind::SessionHeld,
            EngineError::NotFound(_) | EngineError::Store(StoreError::NotFound(_)) => {
                TurnErrorKind::NotFound
            }
            EngineError::NotOffered(_) => TurnErrorKind::Failed(FailureKind::Invalid),
            EngineError::Store(_) => TurnErrorKind::Failed(FailureKind::Internal),
            EngineError::KeyReused(_) => TurnErrorKind::KeyReused,
            EngineError::QueueFull { .. } => TurnErrorKind::QueueFull,
            EngineError::TurnRunning => TurnErrorKind::TurnRunning,
            EngineError::NotRunning => TurnErrorKind::NotRunning,
            EngineError::NotPending => TurnErrorKind::NotPending,
            EngineError::ShuttingDown => TurnErrorKind::ShuttingDown,
            EngineError::Failed(failure) => return failure.clone().into(),
        };
        Self::new(kind, error.to_string())
    }
}

impl From<StoreError> for TurnServiceError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}
