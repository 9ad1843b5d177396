//! What to do after a request has failed: pure, so that every rule can be tested without a server and
//! without waiting. One [`RetryState`] lives as long as one answer is being asked for.

use std::time::Duration;

use angelia_core::model::{Failure, FailureKind};

use super::provider::{ErrorClass, ProviderError};

/// How often a request is sent again when the server fails.
pub const MAX_RETRIES: u32 = 5;

/// How often an answer that broke off after text was shown is continued.
pub const MAX_CONTINUATIONS: u32 = 2;

/// The longest wait for a rate limit inside a turn.
pub const MAX_RATE_WAIT: Duration = Duration::from_mins(1);

const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(32);

/// At most this part of a delay is left out, so that many clients do not come back at once.
const JITTER: f64 = 0.25;

/// The first limit of output to try when the provider does not name its own.
const FALLBACK_OUTPUT_TOKENS: u64 = 4_096;

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFault {
    /// The provider answered with an error, or reported one inside the answer.
    Error(ProviderError),
    /// There was no connection, or it broke off, or nothing came in time.
    Dropped,
    /// The certificate of the server is not accepted.
    Certificate,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryStep {
    /// Send the same request after a while. The retries so far include this one.
    Again { after: Duration, retry: u32 },
    /// Ask for the rest of the answer: what was shown stays.
    Continue { after: Duration },
    /// Send the request without what was refused.
    Without(RefusedPart),
    /// Send the request with a lower limit of output.
    LowerOutput { tokens: u64 },
    /// The conversation must become shorter.
    Shorten { window: Option<u64> },
    /// Nothing helps.
    GiveUp(Failure),
}

/// A part of a request that a provider may refuse, and that the request makes sense without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedPart {
    Reasoning,
    Images,
    SchemaKeywords,
}

/// What has been tried for one answer.
#[derive(Clone, Debug, Default)]
pub struct RetryState {
    retries: u32,
    continuations: u32,
    left_out: Vec<RefusedPart>,
    lowered_output: bool,
}

impl RetryState {
    /// Decides what follows a fault. `has_shown_text`: the person has seen a part of this answer.
    /// `random` is between 0 and 1.
    pub fn next_step(
        &mut self,
        fault: &AttemptFault,
        has_shown_text: bool,
        random: f64,
    ) -> RetryStep {
        let error = match fault {
            AttemptFault::Certificate => return RetryStep::GiveUp(certificate_failure()),
            AttemptFault::Dropped => None,
            AttemptFault::Error(error) => Some(error),
        };
        if let Some(error) = error
            && let Some(step) = self.step_of_class(error)
        {
            return step;
        }
        let asked = error.and_then(|error| error.retry_after);
        let is_transient = error.is_none_or(ProviderError::is_transient);
        if !is_transient || asked.is_some_and(|wait| wait > MAX_RATE_WAIT) {
            return RetryStep::GiveUp(failure_of(error));
        }
        let number = self.retries + self.continuations;
        let after = asked.unwrap_or_else(|| delay(number, random));
        if has_shown_text && self.continuations < MAX_CONTINUATIONS {
            self.continuations += 1;
            return RetryStep::Continue { after };
        }
        if !has_shown_text && self.retries < MAX_RETRIES {
            self.retries += 1;
            return RetryStep::Again { after, retry: self.retries };
        }
        RetryStep::GiveUp(failure_of(error))
    }

    /// Returns the step for an error that another request can avoid; each is tried once.
    fn step_of_class(&mut self, error: &ProviderError) -> Option<RetryStep> {
        let part = match error.class {
            ErrorClass::Overflow { window } => return Some(RetryStep::Shorten { window }),
            ErrorClass::OutputCap { limit } if !self.lowered_output => {
                self.lowered_output = true;
                let tokens = limit.unwrap_or(FALLBACK_OUTPUT_TOKENS);
                return Some(RetryStep::LowerOutput { tokens });
            }
            ErrorClass::ReasoningRejected => RefusedPart::Reasoning,
            ErrorClass::ImageRefused => RefusedPart::Images,
            ErrorClass::SchemaRejected => RefusedPart::SchemaKeywords,
            _ => return None,
        };
        if self.left_out.contains(&part) {
            return None;
        }
        self.left_out.push(part);
        Some(RetryStep::Without(part))
    }
}

/// Returns the wait before the next attempt, after this many.
fn delay(attempts: u32, random: f64) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(attempts)).min(MAX_DELAY);
    doubled.mul_f64(1.0 - JITTER * random.clamp(0.0, 1.0))
}

fn certificate_failure() -> Failure {
    let message = "the certificate of the provider's server is not accepted";
    Failure::new(FailureKind::Unavailable, message)
        .with_hint("check `base_url`, and the clock and the certificates of this machine")
}

/// Returns the failure that a person sees, in the provider's own words.
fn failure_of(error: Option<&ProviderError>) -> Failure {
    let Some(error) = error else {
        let message = "the provider gave no whole answer";
        return Failure::new(FailureKind::Unavailable, message);
    };
    let (kind, hint) = match error.class {
        ErrorClass::Auth => (FailureKind::Auth, Some("check the keys of this provider")),
        ErrorClass::Billing => {
            (FailureKind::Refused, Some("check the balance and the limits of this account"))
        }
        ErrorClass::Forbidden | ErrorClass::Refused => (FailureKind::Refused, None),
        ErrorClass::RateLimited => (FailureKind::RateLimited, None),
        ErrorClass::Overloaded | ErrorClass::Unavailable => (FailureKind::Unavailable, None),
        ErrorClass::NotFound => (FailureKind::Invalid, Some("check `model` and `base_url`")),
        ErrorClass::Overflow { .. }
        | ErrorClass::OutputCap { .. }
        | ErrorClass::ImageRefused
        | ErrorClass::ReasoningRejected
        | ErrorClass::SchemaRejected
        | ErrorClass::Invalid => (FailureKind::Invalid, None),
    };
    let status = error.status.map(|status| format!(" ({status})")).unwrap_or_default();
    let words = if error.message.is_empty() { "no reason was given" } else { &error.message };
    let mut failure = Failure::new(kind, format!("the provider reports{status}: {words}"));
    failure.hint = hint.map(Into::into);
    failure.retry_after = error.retry_after;
    failure
}
