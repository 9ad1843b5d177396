//! Converts the error of a failed turn into a [`Failure`] with a hint for people.
//!
//! `codexErrorInfo` is the best source: a name, possibly with an HTTP status. For `other`, and for
//! names that only a newer version knows, the message text decides, since there is nothing else.

use std::{borrow::Cow, sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind},
    ports::AgentOutcome,
};
use jiff::{
    Timestamp,
    civil::{DateTime, Time},
    tz::TimeZone,
};
use serde::Deserialize;

use super::protocol::{
    notification::{ErrorInfo, TurnError},
    response::OPENAI_PROVIDER,
};
use crate::lenient::{BorrowedStr, Lenient};

pub(crate) const LOG_IN_HINT: &str = "run `codex login` once in a terminal";
const CHECK_KEY_HINT: &str = "check the key of this model provider in Codex's config.toml, and the \
                         variable it is read from in `env:` of the profile";
const CHECK_MODEL_HINT: &str = "set `model:` of the profile to one this login can use";
const SHORTEN_HINT: &str = "start a new session, or send less text and fewer attachments";
const TRY_AGAIN_HINT: &str = "usually temporary: try again in a moment";
const CHECK_NETWORK_HINT: &str =
    "check the network, and *_PROXY and the provider's base_url if they are set";
const ADD_CREDIT_HINT: &str = "add credit to the account, or use another profile";
const REPHRASE_HINT: &str = "rephrase the request, or choose another `model:`";
const SANDBOX_HINT: &str =
    "see `codex sandbox --help`, or choose other `permissions:` for the profile";

/// An error reported by the app-server, kept until its turn ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedError {
    info: ErrorInfo,
    message: Box<str>,
}

impl ReportedError {
    pub(crate) fn from_turn_error(error: &TurnError<'_>) -> Self {
        let info = ErrorInfo::of(error.codex_error_info);
        // During a retry, the message only says that Codex retries; the cause is in
        // `additional_details`.
        let message = error.message.as_str().unwrap_or_default();
        Self { info, message: message.into() }
    }

    /// Creates the error from a JSON-RPC error, which has only a message.
    pub(crate) fn from_message(message: &str) -> Self {
        Self { info: ErrorInfo::default(), message: message.into() }
    }

    pub(crate) fn is_unauthorized(&self) -> bool {
        self.info.status == Some(401) || self.info.name.as_deref() == Some("unauthorized")
    }

    pub(crate) fn to_outcome(&self, around: &CodexFailureContext<'_>) -> AgentOutcome {
        let failure = self.to_failure(around);
        let status = self.info.status.or_else(|| self.status_in_message());
        let names_model = self.info.name.as_deref() == Some("modelNotFound") || status == Some(404);
        if names_model && failure.kind == FailureKind::Invalid {
            AgentOutcome::unknown_model(failure)
        } else {
            AgentOutcome::failed(failure)
        }
    }

    pub(crate) fn to_failure(&self, around: &CodexFailureContext<'_>) -> Failure {
        let (kind, hint) = self.classify(around);
        let mut failure = Failure::new(kind, self.message());
        failure.hint = hint;
        if kind == FailureKind::RateLimited {
            self.set_retry_time(around, &mut failure);
        }
        failure
    }

    /// Returns the message. If it is the JSON body of a response, returns the message inside.
    fn message(&self) -> Cow<'_, str> {
        #[derive(Deserialize)]
        struct ResponseErrorBody<'a> {
            #[serde(borrow, default)]
            error: Lenient<InnerError<'a>>,
        }
        #[derive(Deserialize)]
        struct InnerError<'a> {
            #[serde(borrow, default)]
            message: Lenient<BorrowedStr<'a>>,
        }
        let text = self.message.trim();
        if text.is_empty() {
            return match &self.info.name {
                Some(name) => format!("the agent reported {name}").into(),
                None => "the agent reported a failure without a reason".into(),
            };
        }
        let body: Option<ResponseErrorBody<'_>> = serde_json::from_str(text).ok();
        let inner = body.and_then(|body| body.error.0).and_then(|inner| inner.message.0);
        inner.map_or(text.into(), |inner| inner.0)
    }

    fn classify(&self, around: &CodexFailureContext<'_>) -> (FailureKind, Option<Arc<str>>) {
        use FailureKind::{Agent, Auth};
        if let Some(variable) = self.missing_variable() {
            let hint = format!("set {variable} in `env:` of the profile");
            return (Auth, Some(hint.into()));
        }
        let found = self
            .classify_by_name(around)
            .or_else(|| {
                classify_by_status(self.info.status.or_else(|| self.status_in_message()), around)
            })
            .or_else(|| self.classify_by_message());
        let (kind, hint) = found.unwrap_or((Agent, None));
        (kind, hint.map(Into::into))
    }

    fn classify_by_name(&self, around: &CodexFailureContext<'_>) -> Option<Classification> {
        use FailureKind::{Agent, Auth, Invalid, RateLimited, Refused, Unavailable};
        Some(match self.info.name.as_deref()? {
            "unauthorized" => (Auth, Some(around.login_hint())),
            "usageLimitExceeded" | "sessionBudgetExceeded" => (RateLimited, Some(ADD_CREDIT_HINT)),
            "rateLimitExceeded" => (RateLimited, None),
            "contextWindowExceeded" => (Invalid, Some(SHORTEN_HINT)),
            "modelNotFound" => (Invalid, Some(CHECK_MODEL_HINT)),
            "badRequest" => (Invalid, None),
            "cyberPolicy" | "misalignmentPolicyViolation" => (Refused, Some(REPHRASE_HINT)),
            "tooManyDenials" => (Refused, None),
            "serverOverloaded"
            | "internalServerError"
            | "flexUnavailable"
            | "policyCapacityUnavailable" => (Unavailable, Some(TRY_AGAIN_HINT)),
            "sandboxError" => (Agent, Some(SANDBOX_HINT)),
            "httpConnectionFailed"
            | "responseStreamConnectionFailed"
            | "responseStreamDisconnected"
            | "responseTooManyFailedAttempts"
                if self.info.status.is_none() =>
            {
                (Unavailable, Some(CHECK_NETWORK_HINT))
            }
            _ => return None,
        })
    }

    /// Classifies `other` and unknown names by the message text.
    fn classify_by_message(&self) -> Option<Classification> {
        use FailureKind::{Invalid, RateLimited, Refused, Unavailable};
        let text = self.message.as_ref();
        Some(if text.starts_with('{') && text.contains("invalid_request_error") {
            (Invalid, None)
        } else if text.contains("reason: content_filter") {
            (Refused, Some(REPHRASE_HINT))
        } else if text.contains("Incomplete response returned") {
            (Invalid, Some(SHORTEN_HINT))
        } else if text.contains("rate limit exceeded") {
            (RateLimited, None)
        } else if text.contains("stream disconnected") || text.contains("timeout") {
            (Unavailable, Some(CHECK_NETWORK_HINT))
        } else if text.contains("no rollout found") || text.contains("thread not found") {
            (Invalid, Some("the agent's own transcript is gone; start a new session"))
        } else {
            return None;
        })
    }

    fn missing_variable(&self) -> Option<&str> {
        let rest = self.message.strip_prefix("Missing environment variable: `")?;
        rest.split('`').next().filter(|name| !name.is_empty())
    }

    fn status_in_message(&self) -> Option<u16> {
        let (_, rest) = self.message.split_once("unexpected status ")?;
        rest.get(..3)?.parse().ok()
    }

    /// Sets the retry time from the account's rate limits, or else from the message text.
    fn set_retry_time(&self, around: &CodexFailureContext<'_>, failure: &mut Failure) {
        let until = around.resets_at.or_else(|| self.parse_retry_time(around));
        if let Some(until) = until {
            failure.hint = Some(format!("the limit resets at {until}").into());
            failure.retry_after = (around.turn_ended_at)
                .and_then(|at| Duration::try_from(until.duration_since(at)).ok());
        } else {
            failure.retry_after = self.parse_retry_duration();
        }
    }

    /// Parses `try again in 1.5s`.
    fn parse_retry_duration(&self) -> Option<Duration> {
        let (_, rest) = self.message.split_once("try again in ")?;
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit: String =
            (rest[end..].trim_start().chars()).take_while(char::is_ascii_alphabetic).collect();
        let seconds = match &*unit {
            "ms" => number / 1000.0,
            "s" | "sec" | "second" | "seconds" => number,
            "m" | "min" | "minute" | "minutes" => number * 60.0,
            "h" | "hour" | "hours" => number * 3600.0,
            "d" | "day" | "days" => number * 86400.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Parses `try again at Nov 16th, 2026 3:33 AM.`, or only `3:33 AM` if that is today, in the
    /// machine's time zone.
    fn parse_retry_time(&self, around: &CodexFailureContext<'_>) -> Option<Timestamp> {
        let (_, rest) = self.message.split_once("try again at ")?;
        let text = rest.trim_end().trim_end_matches('.');
        let zone = around.zone.clone();
        let when = if let Some((day, rest)) = text.split_once(", ") {
            let day = day.trim_end_matches(|char: char| char.is_ascii_alphabetic());
            DateTime::strptime("%b %d, %Y %I:%M %p", format!("{day}, {rest}")).ok()?
        } else {
            let today = around.turn_ended_at?.to_zoned(zone.clone()).date();
            today.to_datetime(Time::strptime("%I:%M %p", text).ok()?)
        };
        Some(when.to_zoned(zone).ok()?.timestamp())
    }
}

type Classification = (FailureKind, Option<&'static str>);

/// What a failure depends on besides the error itself.
#[derive(Debug)]
pub(crate) struct CodexFailureContext<'a> {
    pub(crate) provider: Option<&'a str>,
    /// When an exhausted quota resets.
    pub(crate) resets_at: Option<Timestamp>,
    /// When the turn ended.
    pub(crate) turn_ended_at: Option<Timestamp>,
    pub(crate) zone: &'a TimeZone,
}

impl CodexFailureContext<'_> {
    /// Returns the hint for a missing login. `codex login` applies only to the built-in provider.
    pub(crate) fn login_hint(&self) -> &'static str {
        match self.provider {
            None | Some(OPENAI_PROVIDER) => LOG_IN_HINT,
            Some(_) => CHECK_KEY_HINT,
        }
    }
}

fn classify_by_status(
    status: Option<u16>,
    around: &CodexFailureContext<'_>,
) -> Option<Classification> {
    use FailureKind::{Auth, Invalid, RateLimited, Unavailable};
    Some(match status? {
        401 | 403 => (Auth, Some(around.login_hint())),
        402 => (RateLimited, Some(ADD_CREDIT_HINT)),
        404 => (Invalid, Some(CHECK_MODEL_HINT)),
        413 => (Invalid, Some(SHORTEN_HINT)),
        429 => (RateLimited, None),
        408 | 500.. => (Unavailable, Some(TRY_AGAIN_HINT)),
        400..=499 => (Invalid, None),
        // A success status without a usable response: the URL is probably not the model's API.
        200..=399 => (Unavailable, Some(CHECK_NETWORK_HINT)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(error: &str, around: &CodexFailureContext<'_>) -> Failure {
        ReportedError::from_turn_error(&serde_json::from_str(error).unwrap()).to_failure(around)
    }

    fn around(zone: &TimeZone) -> CodexFailureContext<'_> {
        CodexFailureContext {
            provider: Some(OPENAI_PROVIDER),
            resets_at: None,
            turn_ended_at: Some("2026-11-15T18:03:53Z".parse().unwrap()),
            zone,
        }
    }

    #[test]
    fn words_of_the_next_version_still_find_a_kind() {
        let zone = TimeZone::UTC;
        let kind = |error| failure_of(error, &around(&zone)).kind;
        let cases = [
            (
                r#"{"message":"m","codexErrorInfo":{"brandNew":{"httpStatusCode":401}}}"#,
                FailureKind::Auth,
            ),
            (
                r#"{"message":"m","codexErrorInfo":{"brandNew":{"httpStatusCode":503}}}"#,
                FailureKind::Unavailable,
            ),
            (
                r#"{"message":"unexpected status 422 Odd: x","codexErrorInfo":"brandNew"}"#,
                FailureKind::Invalid,
            ),
            (r#"{"message":"m","codexErrorInfo":"cyberPolicy"}"#, FailureKind::Refused),
            (r#"{"message":"m","codexErrorInfo":"brandNew"}"#, FailureKind::Agent),
            (r#"{"message":"m"}"#, FailureKind::Agent),
            ("{}", FailureKind::Agent),
        ];
        for (error, expected) in cases {
            assert_eq!(kind(error), expected, "{error}");
        }
    }

    #[test]
    fn hints_fit_the_provider() {
        let zone = TimeZone::UTC;
        let error =
            r#"{"message":"m","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}"#;
        let hint = |around: &CodexFailureContext<'_>| failure_of(error, around).hint.unwrap();
        assert_eq!(&*hint(&around(&zone)), LOG_IN_HINT);
        let custom = CodexFailureContext { provider: Some("fake"), ..around(&zone) };
        assert_eq!(&*hint(&custom), CHECK_KEY_HINT);
        let missing =
            r#"{"message":"Missing environment variable: `K`. Set it","codexErrorInfo":"other"}"#;
        let failure = failure_of(missing, &custom);
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.hint.unwrap().contains("set K "));
    }

    #[test]
    fn waiting_times_are_read_from_the_windows_or_from_the_words() {
        let zone = TimeZone::UTC;
        let wait = |words: &str, around: &CodexFailureContext<'_>| {
            let error = format!(r#"{{"message":"{words}","codexErrorInfo":"usageLimitExceeded"}}"#);
            failure_of(&error, around).retry_after.map(|wait| wait.as_secs_f64())
        };
        let around = around(&zone);
        assert_eq!(wait("Please try again in 1.5s.", &around), Some(1.5));
        assert_eq!(wait("try again in 2 minutes", &around), Some(120.0));
        assert_eq!(wait("try again in a while", &around), None);
        assert_eq!(wait("or try again at Nov 16th, 2026 3:33 AM.", &around), Some(34147.0));
        assert_eq!(wait("or try again at 7:03 PM.", &around), Some(3547.0));
        assert_eq!(wait("or try again at some time.", &around), None);
        let windows = CodexFailureContext {
            resets_at: Some("2026-11-15T18:04:53Z".parse().unwrap()),
            ..around
        };
        assert_eq!(wait("try again in 5s", &windows), Some(60.0));
    }
}
