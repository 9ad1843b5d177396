//! Classifies a failed turn that the CLI reports, and adds a hint for people.
//!
//! The CLI reports the cause in several places, none of which is always present: the `error` of the
//! synthetic message that replaces the model's, the HTTP status, `api_error`, and
//! `terminal_reason`. The text is for people and changes between versions, so it is only a last
//! resort.

use std::{borrow::Cow, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind},
    ports::AgentOutcome,
};
use jiff::Timestamp;

const LOG_IN_HINT: &str = "run `claude` (or `claude auth login`) once in a terminal";
const CHECK_KEY_HINT: &str = "check ANTHROPIC_API_KEY in `env:` of the profile";
const CHECK_MODEL_HINT: &str = "set `model:` of the profile to one this login can use";
const SHORTEN_HINT: &str = "start a new session, or send less text and fewer attachments";
const TRY_AGAIN_HINT: &str = "usually temporary: try again in a moment";
const CHECK_NETWORK_HINT: &str =
    "check the network, and *_PROXY and ANTHROPIC_BASE_URL if they are set";
const ADD_CREDIT_HINT: &str = "add credit to the account, or use another profile";
const REPHRASE_HINT: &str = "rephrase the request, or choose another `model:`";

/// Everything that a failed result and the lines before it report about the cause.
#[derive(Debug, Default)]
pub(crate) struct FailureEvidence<'a> {
    /// The `error` of the synthetic message.
    pub(crate) error: Option<&'a str>,
    pub(crate) status: Option<u16>,
    pub(crate) api_error: Option<&'a str>,
    pub(crate) terminal_reason: Option<&'a str>,
    pub(crate) subtype: Option<&'a str>,
    /// The CLI's message for people.
    pub(crate) text: Cow<'a, str>,
    /// Set if the model or a safeguard refused the request.
    pub(crate) refused: bool,
    pub(crate) uses_api_key: bool,
    /// When the exhausted quota resets.
    pub(crate) resets_at: Option<Timestamp>,
    /// The latest timestamp of any line of this turn.
    pub(crate) last_seen_at: Option<Timestamp>,
}

impl FailureEvidence<'_> {
    pub(crate) fn to_failure(&self) -> Failure {
        let (kind, hint) = self.classify();
        let mut failure = Failure::new(kind, self.message());
        failure.hint = hint.map(Into::into);
        if kind == FailureKind::RateLimited
            && let Some(resets_at) = self.resets_at
        {
            failure.hint = Some(format!("the limit resets at {resets_at}").into());
            failure.retry_after = self
                .last_seen_at
                .and_then(|at| Duration::try_from(resets_at.duration_since(at)).ok());
        }
        failure
    }

    pub(crate) fn to_outcome(&self) -> AgentOutcome {
        let failure = self.to_failure();
        let names_model = self.error == Some("model_not_found") || self.status == Some(404);
        if names_model && failure.kind == FailureKind::Invalid {
            AgentOutcome::unknown_model(failure)
        } else {
            AgentOutcome::failed(failure)
        }
    }

    fn message(&self) -> Cow<'_, str> {
        // `/login` is not available when a program drives the CLI; our hint says how to log in.
        let text = match self.text.split_once(" · Please run /login") {
            Some((text, _)) => text.trim(),
            None => self.text.trim(),
        };
        if text.is_empty() {
            return match self.subtype {
                Some(subtype) => format!("the agent reported {subtype}").into(),
                None => "the agent reported a failure without a reason".into(),
            };
        }
        text.into()
    }

    fn classify(&self) -> (FailureKind, Option<&'static str>) {
        use FailureKind::{Agent, Invalid, Refused};
        if self.refused {
            return (Refused, Some(REPHRASE_HINT));
        }
        match self.terminal_reason {
            Some("prompt_too_long" | "blocking_limit" | "image_error") => {
                return (Invalid, Some(SHORTEN_HINT));
            }
            Some("structured_output_retry_exhausted") => return (Invalid, None),
            _ => {}
        }
        if self.subtype == Some("error_max_structured_output_retries") {
            return (Invalid, None);
        }
        self.by_error()
            .or_else(|| self.by_status())
            .or_else(|| self.by_name())
            .unwrap_or((Agent, None))
    }

    fn by_error(&self) -> Option<(FailureKind, Option<&'static str>)> {
        use FailureKind::{Auth, Invalid, RateLimited, Unavailable};
        Some(match self.error? {
            "authentication_failed" if self.uses_api_key && self.status == Some(401) => {
                (Auth, Some(CHECK_KEY_HINT))
            }
            "authentication_failed"
            | "oauth_org_not_allowed"
            | "account_on_hold"
            | "verification_required"
            | "cloud_credential_error" => (Auth, Some(LOG_IN_HINT)),
            "billing_error" => (RateLimited, Some(ADD_CREDIT_HINT)),
            "rate_limit" => (RateLimited, None),
            "model_not_found" => (Invalid, Some(CHECK_MODEL_HINT)),
            "invalid_request" if self.status == Some(413) => (Invalid, Some(SHORTEN_HINT)),
            "invalid_request" | "max_output_tokens" => (Invalid, None),
            "overloaded" => (Unavailable, Some(TRY_AGAIN_HINT)),
            "server_error" if self.status.is_some() => (Unavailable, Some(TRY_AGAIN_HINT)),
            _ => return None,
        })
    }

    fn by_status(&self) -> Option<(FailureKind, Option<&'static str>)> {
        use FailureKind::{Auth, Invalid, RateLimited, Unavailable};
        Some(match self.status? {
            401 if self.uses_api_key => (Auth, Some(CHECK_KEY_HINT)),
            401 | 403 => (Auth, Some(LOG_IN_HINT)),
            402 => (RateLimited, Some(ADD_CREDIT_HINT)),
            404 => (Invalid, Some(CHECK_MODEL_HINT)),
            429 => (RateLimited, None),
            408 | 500.. => (Unavailable, Some(TRY_AGAIN_HINT)),
            400..=499 => (Invalid, None),
            _ => return None,
        })
    }

    /// Classifies errors without an HTTP status, where there was no response or no readable one.
    fn by_name(&self) -> Option<(FailureKind, Option<&'static str>)> {
        use FailureKind::{RateLimited, Unavailable};
        match (self.api_error, self.error) {
            (Some("usage_limit_reached"), _) => Some((RateLimited, None)),
            (Some("connection_failed"), _) => Some((Unavailable, Some(CHECK_NETWORK_HINT))),
            // Overload (529) is the only case without a status that is not a network problem.
            (_, Some("server_error")) if self.text.contains("529") => {
                Some((Unavailable, Some(TRY_AGAIN_HINT)))
            }
            (_, Some("server_error" | "unknown")) => Some((Unavailable, Some(CHECK_NETWORK_HINT))),
            _ if self.terminal_reason == Some("api_error") => {
                Some((Unavailable, Some(TRY_AGAIN_HINT)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_becomes_a_waiting_time_where_the_lines_carry_the_time() {
        let resets_at: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
        let mut evidence = FailureEvidence {
            error: Some("rate_limit"),
            status: Some(429),
            resets_at: Some(resets_at),
            last_seen_at: Some("2027-01-15T07:30:00Z".parse().unwrap()),
            ..FailureEvidence::default()
        };
        let failure = evidence.to_failure();
        assert_eq!(failure.kind, FailureKind::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_mins(30)));
        assert!(failure.hint.unwrap().contains("2027-01-15T08:00:00Z"));

        evidence.last_seen_at = Some("2027-01-15T09:00:00Z".parse().unwrap());
        assert_eq!(evidence.to_failure().retry_after, None, "already over");
        evidence.last_seen_at = None;
        assert_eq!(evidence.to_failure().retry_after, None);
    }

    #[test]
    fn words_of_the_next_version_still_find_a_kind() {
        let kind = |error, status| {
            let evidence =
                FailureEvidence { error: Some(error), status, ..FailureEvidence::default() };
            evidence.to_failure().kind
        };
        assert_eq!(kind("brand_new", Some(401)), FailureKind::Auth);
        assert_eq!(kind("brand_new", Some(503)), FailureKind::Unavailable);
        assert_eq!(kind("brand_new", Some(422)), FailureKind::Invalid);
        assert_eq!(kind("brand_new", None), FailureKind::Agent);
        assert_eq!(kind("overloaded", None), FailureKind::Unavailable);
    }
}
