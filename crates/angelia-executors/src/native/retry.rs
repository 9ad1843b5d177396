//! Decides what to do after a failed request. The code is pure, so that every rule can be tested
//! without a server and without waiting. One [`RetryState`] covers all attempts to get one answer.

use std::time::Duration;

use angelia_core::model::{Failure, FailureKind};

use super::provider::{ErrorClass, ProviderError};

/// How often a request is sent again when the server fails.
pub const MAX_RETRIES: u32 = 5;

/// How often an answer is continued that broke off after text was shown.
pub const MAX_CONTINUATIONS: u32 = 2;

/// How often the images of a request are shrunk before they are left out.
pub const MAX_IMAGE_SHRINKS: u32 = 2;

/// The longest wait for a rate limit inside a turn.
pub const MAX_RATE_WAIT: Duration = Duration::from_mins(1);

/// The longest wait for a model if another model can be asked, and for a rate-limited key if
/// another key can be used.
pub const MAX_WAIT_WITH_FALLBACK: Duration = Duration::from_secs(5);

const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(32);

/// The largest fraction by which a delay is randomly shortened, so that many clients do not return
/// at once.
const JITTER: f64 = 0.25;

/// The output limit to try if the provider does not name its own.
const FALLBACK_OUTPUT_TOKENS: u64 = 4_096;

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFault {
    /// The provider answered with an error, or reported one inside the answer.
    Error(ProviderError),
    /// There was no connection, it broke, or nothing arrived in time.
    Dropped,
    /// The server's certificate was not accepted.
    Certificate,
}

/// The circumstances of a failed attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptContext {
    /// Part of this answer was already shown.
    pub has_shown_text: bool,
    /// Between 0 and 1.
    pub random: f64,
    pub detours: Detours,
}

/// The alternatives to sending the same request again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detours {
    /// The key was renewed, and this answer has not been requested with the new key yet.
    pub renewed_key: bool,
    /// How long until another key of this provider can be used, if there is one.
    pub other_key: Option<Duration>,
    /// Another model of the chain can be asked.
    pub other_model: bool,
    /// The model has failed and not answered since, so it gets only one attempt.
    pub on_probation: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryStep {
    /// Send the same request after a wait. `retry` counts the retries, including this one.
    Again { after: Duration, retry: u32 },
    /// Ask for the rest of the answer after a wait; the text shown so far stays.
    Continue { after: Duration },
    /// Send the request with the renewed key.
    RenewKey,
    /// Send the request with another key after a wait.
    NextKey { after: Duration },
    /// Ask another model; the failure says why.
    FallBack(Failure),
    /// Send the request without the refused part.
    Without(RefusedPart),
    /// Send the request with smaller images.
    ShrinkImages,
    /// Send the request with a lower output limit.
    LowerOutput { tokens: u64 },
    /// Shorten the conversation. `window` is the size that the provider named.
    Shorten { window: Option<u64> },
    /// Nothing helps.
    GiveUp(Failure),
}

/// A part of a request that a provider may refuse, and that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedPart {
    Reasoning,
    Images,
    SchemaKeywords,
}

/// The attempts to get one answer so far.
#[derive(Clone, Debug, Default)]
pub struct RetryState {
    retries: u32,
    continuations: u32,
    left_out: Vec<RefusedPart>,
    lowered_output: bool,
    /// The current key was rate-limited and tried once more.
    insisted: bool,
    image_shrinks: u32,
}

impl RetryState {
    /// Decides what to do after a fault.
    pub fn next_step(&mut self, fault: &AttemptFault, context: &AttemptContext) -> RetryStep {
        let detours = context.detours;
        let error = match fault {
            AttemptFault::Certificate => return leave(certificate_failure(), detours),
            AttemptFault::Dropped => None,
            AttemptFault::Error(error) => Some(error),
        };
        if let Some(error) = error {
            if let Some(step) = self.step_of_class(error) {
                return step;
            }
            if let Some(step) = self.key_step(error, context) {
                return step;
            }
        }
        let failure = || failure_of(error, detours.other_key);
        let is_transient = error.is_none_or(ProviderError::is_transient);
        if !is_transient {
            // Another model would get the same request, so falling back cannot help if the request
            // is at fault.
            let is_ours = error.is_some_and(|error| !error.is_of_provider());
            return if is_ours { RetryStep::GiveUp(failure()) } else { leave(failure(), detours) };
        }
        let after = self.wait_after(error, context.random);
        let is_too_long = after > MAX_RATE_WAIT;
        let is_better_elsewhere = after > MAX_WAIT_WITH_FALLBACK || detours.on_probation;
        if is_too_long || (detours.other_model && is_better_elsewhere) {
            return leave(failure(), detours);
        }
        if context.has_shown_text && self.continuations < MAX_CONTINUATIONS {
            self.continuations += 1;
            return RetryStep::Continue { after };
        }
        if !context.has_shown_text && self.retries < MAX_RETRIES {
            self.retries += 1;
            return RetryStep::Again { after, retry: self.retries };
        }
        leave(failure(), detours)
    }

    /// Starts over with another model.
    pub fn begin_with_other_model(&mut self) {
        *self = Self::default();
    }

    /// Returns the wait before the same request: what the provider asks for, or else longer each
    /// time.
    fn wait_after(&self, error: Option<&ProviderError>, random: f64) -> Duration {
        let asked = error.and_then(|error| error.retry_after);
        asked.unwrap_or_else(|| delay(self.retries + self.continuations, random))
    }

    /// Returns the step for an error that concerns the key, if a renewed key or another one can be
    /// used.
    fn key_step(&mut self, error: &ProviderError, context: &AttemptContext) -> Option<RetryStep> {
        let detours = context.detours;
        if error.class == ErrorClass::Auth && detours.renewed_key {
            return Some(RetryStep::RenewKey);
        }
        if !error.concerns_key() {
            return None;
        }
        let free_in = detours.other_key?;
        if error.class == ErrorClass::RateLimited {
            let own = self.wait_after(Some(error), context.random);
            let may_insist = free_in.is_zero()
                && own <= MAX_WAIT_WITH_FALLBACK
                && error.is_transient()
                && !context.has_shown_text
                && self.retries < MAX_RETRIES;
            if may_insist && !std::mem::replace(&mut self.insisted, true) {
                self.retries += 1;
                return Some(RetryStep::Again { after: own, retry: self.retries });
            }
            let limit = if detours.other_model { MAX_WAIT_WITH_FALLBACK } else { MAX_RATE_WAIT };
            let is_worth_waiting = free_in < own && free_in <= limit && self.retries < MAX_RETRIES;
            if !free_in.is_zero() && !is_worth_waiting {
                return None;
            }
        } else if !free_in.is_zero() {
            // Only a rate limit is worth waiting for another key.
            return None;
        }
        self.insisted = false;
        self.retries += u32::from(!free_in.is_zero());
        Some(RetryStep::NextKey { after: free_in })
    }

    /// Returns the step for an error that a changed request may avoid, unless that change was
    /// already tried.
    fn step_of_class(&mut self, error: &ProviderError) -> Option<RetryStep> {
        let part = match error.class {
            ErrorClass::Overflow { window } => return Some(RetryStep::Shorten { window }),
            ErrorClass::OutputCap { limit } if !self.lowered_output => {
                self.lowered_output = true;
                let tokens = limit.unwrap_or(FALLBACK_OUTPUT_TOKENS);
                return Some(RetryStep::LowerOutput { tokens });
            }
            ErrorClass::ImageTooLarge if self.image_shrinks < MAX_IMAGE_SHRINKS => {
                self.image_shrinks += 1;
                return Some(RetryStep::ShrinkImages);
            }
            ErrorClass::ReasoningRejected => RefusedPart::Reasoning,
            ErrorClass::ImageRefused | ErrorClass::ImageTooLarge | ErrorClass::ImageUnreadable => {
                RefusedPart::Images
            }
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

/// Gives up on the model: falls back to another one, or fails.
fn leave(failure: Failure, detours: Detours) -> RetryStep {
    if detours.other_model { RetryStep::FallBack(failure) } else { RetryStep::GiveUp(failure) }
}

/// Returns the wait after this many attempts.
fn delay(attempts: u32, random: f64) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(attempts)).min(MAX_DELAY);
    doubled.mul_f64(1.0 - JITTER * random.clamp(0.0, 1.0))
}

fn certificate_failure() -> Failure {
    let message = "the certificate of the provider's server is not accepted";
    Failure::new(FailureKind::Unavailable, message)
        .with_hint("check `base_url`, and the clock and the certificates of this machine")
}

/// Returns the failure to show, with the provider's own message. `other_key`: how long until
/// another key can be used.
fn failure_of(error: Option<&ProviderError>, other_key: Option<Duration>) -> Failure {
    let Some(error) = error else {
        let message = "the provider gave no complete answer";
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
        | ErrorClass::ImageTooLarge
        | ErrorClass::ImageUnreadable
        | ErrorClass::ReasoningRejected
        | ErrorClass::SchemaRejected
        | ErrorClass::Invalid => (FailureKind::Invalid, None),
    };
    let status = error.status.map(|status| format!(" ({status})")).unwrap_or_default();
    let words = if error.message.is_empty() { "no reason was given" } else { &error.message };
    let mut failure = Failure::new(kind, format!("the provider reports{status}: {words}"));
    failure.hint = hint.map(Into::into);
    failure.retry_after = match (error.retry_after, other_key) {
        (Some(stated), Some(other)) if error.concerns_key() => Some(stated.min(other)),
        (stated, _) => stated,
    };
    failure
}
