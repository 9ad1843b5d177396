//! The cause of a failed turn, in terms that every frontend can map to its own error codes.

use std::{sync::Arc, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Not logged in, or the login is no longer accepted.
    Auth,
    /// A quota or rate limit.
    RateLimited,
    /// The agent or its vendor cannot be reached.
    Unavailable,
    /// The request itself cannot be served.
    Invalid,
    /// The model or a policy refused.
    Refused,
    /// A timeout expired.
    Timeout,
    /// The agent crashed, or violated its protocol.
    Agent,
    /// Angelia failed.
    Internal,
}

impl FailureKind {
    pub const ALL: [Self; 8] = [
        Self::Auth,
        Self::RateLimited,
        Self::Unavailable,
        Self::Invalid,
        Self::Refused,
        Self::Timeout,
        Self::Agent,
        Self::Internal,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Agent => "agent",
            Self::Internal => "internal",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: Arc<str>,
    /// Advice for the person: a command or a setting that solves the problem.
    pub hint: Option<Arc<str>>,
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), hint: None, retry_after: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Arc<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
