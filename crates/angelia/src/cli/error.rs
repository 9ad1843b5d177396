//! Command errors, their message format, and the exit codes that go with them.

use std::fmt;

use angelia_core::{
    engine::EngineError,
    model::{Failure, FailureKind, TurnStatus},
    ports::StoreError,
};
use angelia_frontends::turn_service::{TurnErrorKind, TurnServiceError};

/// The exit codes of all commands. Scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Unavailable = 69,
    Internal = 70,
    /// The output cannot be written for another reason than that its reader is gone.
    Output = 74,
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
    /// Returns the exit code for a turn that ended with this status.
    pub(crate) fn of_status(status: &TurnStatus) -> Self {
        match status {
            TurnStatus::Completed | TurnStatus::Partial => Self::Done,
            TurnStatus::Interrupted => Self::Interrupted,
            TurnStatus::Parked { .. } => Self::TryLater,
            TurnStatus::Failed(failure) => Self::of_failure(failure.kind),
        }
    }

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

/// The hint for a daemon that is gone.
pub(crate) const LOST_DAEMON_HINT: &str = "check whether `angelia serve` still runs; `angelia turns \
                                           list` shows what became of its turns";

/// A failed command: the exit code, the failure, and a hint on what to do.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Whether the end of the turn has already been printed, so that no further event may follow.
    pub(crate) is_after_end: bool,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, is_after_end: false }
    }

    /// Returns the error for a turn whose end could not be written before this command ended.
    pub(crate) fn unrecorded_end() -> Self {
        let message =
            "the end of the turn could not be recorded, for example because the disk is full";
        let hint = "free some space; `turns list` will show this turn as killed";
        Self { is_after_end: true, ..Self::new(Exit::Internal, message).with_hint(hint) }
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

impl From<TurnServiceError> for CommandError {
    fn from(error: TurnServiceError) -> Self {
        let (exit, hint) = match error.kind {
            TurnErrorKind::Failed(kind) => (Exit::of_failure(kind), None),
            TurnErrorKind::NotFound
            | TurnErrorKind::KeyReused
            | TurnErrorKind::NotRunning
            | TurnErrorKind::NotPending => (Exit::Failed, None),
            TurnErrorKind::SessionHeld
            | TurnErrorKind::QueueFull
            | TurnErrorKind::TurnRunning
            | TurnErrorKind::ShuttingDown => (Exit::TryLater, None),
            TurnErrorKind::Unreachable | TurnErrorKind::ConnectionLost => {
                (Exit::TryLater, Some(LOST_DAEMON_HINT))
            }
            TurnErrorKind::BadResponse => {
                let hint = "stop the daemon and start it again with this version";
                (Exit::Internal, Some(hint))
            }
        };
        let hint = error.hint.or(hint.map(str::to_owned));
        Self { hint, ..Self::new(exit, error.message) }
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        TurnServiceError::from(failure).into()
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        TurnServiceError::from(error).into()
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        TurnServiceError::from(error).into()
    }
}
