//! The errors between a command and the daemon.

use angelia_core::model::FailureKind;
use angelia_frontends::http::{ErrorBody, ErrorDetail};
use hyper::StatusCode;

use crate::cli::error::{CommandError, Exit};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot reach the daemon: {0}")]
    Gone(std::io::Error),
    #[error("the connection to the daemon broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the daemon does not answer")]
    Silent,
    /// The daemon refuses the request and gives a reason.
    #[error("{}", .0.message)]
    Refused(ErrorDetail),
    #[error("this version does not understand the daemon's answer: {0}")]
    Odd(serde_json::Error),
    #[error("the daemon answered with status {0} and gave no reason")]
    Unexplained(StatusCode),
}

impl ClientError {
    pub(super) fn refused(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(body) => Self::Refused(body.error),
            Err(_other_shape) => Self::Unexplained(status),
        }
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Refused(detail) => {
                let failed = Self::new(exit(&detail.kind), message);
                match detail.hint {
                    Some(hint) => failed.with_hint(hint),
                    None => failed,
                }
            }
            ClientError::Gone(_) | ClientError::Broken(_) | ClientError::Silent => {
                Self::new(Exit::TryLater, message).with_hint(
                    "check whether `angelia serve` still runs; `angelia turns list` shows what \
                     became of its turns",
                )
            }
            ClientError::Odd(_) | ClientError::Unexplained(_) => Self::new(Exit::Internal, message)
                .with_hint("stop the daemon and start it again with this version"),
        }
    }
}

/// Returns the same exit code as a command that does the work itself.
fn exit(kind: &str) -> Exit {
    match (FailureKind::parse(kind), kind) {
        (Some(kind), _) => Exit::of_failure(kind),
        (None, "busy") => Exit::TryLater,
        (None, _) => Exit::Failed,
    }
}
