//! The errors between a command and the daemon.

use angelia_core::model::FailureKind;
use angelia_frontends::http::{ErrorBody, ErrorDetail};
use hyper::StatusCode;

use crate::cli::error::{CommandError, Exit};

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
}

impl ClientError {
    pub(super) fn from_response(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(body) => Self::Refused(body.error),
            Err(_other_shape) => Self::UnexpectedStatus(status),
        }
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Refused(detail) => {
                let failed = Self::new(exit_for_kind(&detail.kind), message);
                match detail.hint {
                    Some(hint) => failed.with_hint(hint),
                    None => failed,
                }
            }
            ClientError::Unreachable(_) | ClientError::ConnectionLost(_) | ClientError::Timeout => {
                Self::new(Exit::TryLater, message).with_hint(
                    "check whether `angelia serve` still runs; `angelia turns list` shows what \
                     became of its turns",
                )
            }
            ClientError::InvalidResponse(_) | ClientError::UnexpectedStatus(_) => {
                Self::new(Exit::Internal, message)
                    .with_hint("stop the daemon and start it again with this version")
            }
        }
    }
}

/// Returns the same exit code as a command that does the work itself.
fn exit_for_kind(kind: &str) -> Exit {
    match (FailureKind::parse(kind), kind) {
        (Some(kind), _) => Exit::of_failure(kind),
        (None, "busy") => Exit::TryLater,
        (None, _) => Exit::Failed,
    }
}
