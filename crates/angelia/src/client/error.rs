//! Errors between a command and the daemon.

use angelia_core::model::FailureKind;
use angelia_frontends::{
    http::{ErrorBody, ErrorDetail},
    turn_service::{TurnErrorKind, TurnServiceError},
};
use hyper::StatusCode;

use crate::cli::error::CommandError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot reach the daemon: {0}")]
    Unreachable(std::io::Error),
    #[error("the connection to the daemon broke: {0}")]
    ConnectionLost(#[from] hyper::Error),
    #[error("the daemon does not answer")]
    Timeout,
    /// The daemon refuses the request and gives a reason.
    #[error("{}", .0.message)]
    Refused(ErrorDetail),
    #[error("this version does not understand the daemon's answer: {0}")]
    InvalidResponse(serde_json::Error),
    #[error("the daemon answered with status {0} and gave no reason")]
    UnexpectedStatus(StatusCode),
    #[error("the idempotency key has characters that cannot be sent")]
    InvalidKey,
}

impl ClientError {
    pub(super) fn from_response(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(body) => Self::Refused(body.error),
            Err(_other_shape) => Self::UnexpectedStatus(status),
        }
    }

    /// Converts the error. `conflict` is the only conflict that the request can cause.
    pub(super) fn into_service_error(self, conflict: TurnErrorKind) -> TurnServiceError {
        let message = self.to_string();
        let kind = match self {
            Self::Refused(detail) => {
                let kind = match (FailureKind::parse(&detail.kind), &*detail.kind) {
                    (Some(kind), _) => TurnErrorKind::Failed(kind),
                    (None, "busy") => TurnErrorKind::SessionHeld,
                    (None, "conflict") => conflict,
                    (None, "too_large") => TurnErrorKind::Failed(FailureKind::Invalid),
                    (None, "not_found") => TurnErrorKind::NotFound,
                    (None, _) => TurnErrorKind::Failed(FailureKind::Internal),
                };
                return TurnServiceError { kind, message, hint: detail.hint };
            }
            Self::Unreachable(_) => TurnErrorKind::Unreachable,
            Self::ConnectionLost(_) | Self::Timeout => TurnErrorKind::ConnectionLost,
            Self::InvalidResponse(_) | Self::UnexpectedStatus(_) => TurnErrorKind::BadResponse,
            Self::InvalidKey => TurnErrorKind::Failed(FailureKind::Invalid),
        };
        TurnServiceError::new(kind, message)
    }
}

impl From<ClientError> for TurnServiceError {
    fn from(error: ClientError) -> Self {
        error.into_service_error(TurnErrorKind::NotRunning)
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        TurnServiceError::from(error).into()
    }
}
