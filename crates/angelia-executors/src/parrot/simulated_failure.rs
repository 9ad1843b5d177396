//! The failures that `!fail` can simulate, and their form in the protocol.

use crate::scripted_claude::ApiFailure;

/// A failure, named by the word that follows `!fail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulatedFailure {
    Auth,
    Billing,
    Invalid,
    Model,
    Rate,
    Refused,
    Server,
    Unknown,
}

impl SimulatedFailure {
    pub(super) const ALL: [Self; 8] = [
        Self::Auth,
        Self::Billing,
        Self::Invalid,
        Self::Model,
        Self::Rate,
        Self::Refused,
        Self::Server,
        Self::Unknown,
    ];

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    pub(super) const fn word(self) -> &'static str {
        self.row().0
    }

    pub(super) const fn as_api_failure(self) -> ApiFailure {
        let (_, error, status, text) = self.row();
        let stop_reason = match self {
            Self::Refused => "refusal",
            _ => "stop_sequence",
        };
        ApiFailure { error, status, text, stop_reason }
    }

    /// Returns the word, the error code, the HTTP status and the text.
    const fn row(self) -> (&'static str, &'static str, Option<u16>, &'static str) {
        match self {
            Self::Auth => ("auth", "authentication_failed", Some(401), "Pretended: not logged in"),
            Self::Billing => {
                ("billing", "billing_error", Some(400), "Pretended: the credit is used up")
            }
            Self::Invalid => {
                ("invalid", "invalid_request", Some(400), "Pretended: the request is not valid")
            }
            Self::Model => {
                ("model", "model_not_found", Some(404), "Pretended: there is no such model")
            }
            Self::Rate => ("rate", "rate_limit", Some(429), "Pretended: too many requests"),
            Self::Refused => {
                ("refused", "invalid_request", None, "Pretended: the model refuses to answer")
            }
            Self::Server => {
                ("server", "server_error", Some(529), "Pretended: the service is overloaded")
            }
            Self::Unknown => ("unknown", "unknown", None, "Pretended: something failed"),
        }
    }
}
