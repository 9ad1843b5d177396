//! The reasons why the bridge did not carry out a request, with one table from the errors of turns
//! to its codes.

use angelia_core::model::FailureKind;

use super::BridgeErrorCode;
use crate::turn_service::{TurnErrorKind, TurnServiceError};

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

impl From<TurnServiceError> for BridgeError {
    fn from(error: TurnServiceError) -> Self {
        Self::new(error.kind.into(), error.to_string())
    }
}

impl From<TurnErrorKind> for BridgeErrorCode {
    fn from(kind: TurnErrorKind) -> Self {
        match kind {
            TurnErrorKind::Failed(kind) => kind.into(),
            TurnErrorKind::NotFound => Self::Invalid,
            TurnErrorKind::SessionHeld => Self::SessionHeld,
            TurnErrorKind::QueueFull | TurnErrorKind::TurnRunning => Self::SessionBusy,
            TurnErrorKind::KeyReused => Self::KeyReused,
            TurnErrorKind::NotRunning => Self::NotRunning,
            TurnErrorKind::NotPending => Self::UnknownApproval,
            TurnErrorKind::ShuttingDown => Self::ShuttingDown,
            TurnErrorKind::Unreachable
            | TurnErrorKind::ConnectionLost
            | TurnErrorKind::BadResponse => Self::Unavailable,
        }
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
