//! Command errors, their message format, and the exit codes that go with them.

use std::fmt;

use angelia_core::{
    engine::EngineError,
    model::{Failure, FailureKind},
    ports::StoreError,
};

/// The exit codes of every command; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Unavailable = 69,
    Internal = 70,
    TryLater = 75,
    NotLoggedIn = 77,
    Config = 78,
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Returns the exit code for a failed turn.
    pub(crate) fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Auth => Self::NotLoggedIn,
            FailureKind::RateLimited => Self::TryLater,
            FailureKind::Unavailable => Self::Unavailable,
            FailureKind::Internal => Self::Internal,
            FailureKind::Invalid
            | FailureKind::Refused
            | FailureKind::Timeout
            | FailureKind::Agent => Self::Failed,
        }
    }
}

/// A failed command: the exit code, what failed, and a hint about what to do.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self::new(Exit::Internal, message.to_string())
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "angelia: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self {
            exit: Exit::of_failure(failure.kind),
            message: failure.message.to_string(),
            hint: failure.hint.map(|hint| hint.to_string()),
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::Held(_) | StoreError::LeaseLost | StoreError::Conflict => Exit::TryLater,
            StoreError::NotFound(_) => Exit::Failed,
            StoreError::TurnFinished
            | StoreError::DuplicateEvent { .. }
            | StoreError::Failed { .. } => Exit::Internal,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Failed(failure) => failure.into(),
            EngineError::QueueFull { .. } | EngineError::ShuttingDown => {
                Self::new(Exit::TryLater, error.to_string())
            }
            EngineError::NotFound(_)
            | EngineError::NotRunning
            | EngineError::NotPending
            | EngineError::KeyReused(_) => Self::new(Exit::Failed, error.to_string()),
        }
    }
}
