//! The JSON form of usage, failure and outcome on disk. Decoding never fails: a finished turn stays
//! finished, even if a newer version wrote its outcome in an unknown form.

use std::{borrow::Cow, time::Duration};

use angelia_core::model::{ContextWindow, Failure, FailureKind, Outcome, TurnStatus, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsageBody<'a> {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    #[serde(skip_serializing_if = "Option::is_none", with = "exact")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_sha256: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<ContextBody>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ContextBody {
    used: u64,
    size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OutcomeBody<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
    #[serde(default)]
    usage: UsageBody<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureBody<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumes_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FailureBody<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<Duration>,
}

impl<'a> UsageBody<'a> {
    pub(super) fn of(usage: &'a Usage) -> Self {
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_tokens,
            cache_write: usage.cache_write_tokens,
            cost_usd: usage.cost_usd,
            lane: usage.lane.as_deref().map(Cow::Borrowed),
            prefix_sha256: usage.prefix_sha256.as_deref().map(Cow::Borrowed),
            context: (usage.context).map(|ContextWindow { used, size }| ContextBody { used, size }),
        }
    }

    pub(super) fn into_usage(self) -> Usage {
        Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            cost_usd: self.cost_usd,
            lane: self.lane.map(Into::into),
            prefix_sha256: self.prefix_sha256.map(Into::into),
            context: (self.context).map(|ContextBody { used, size }| ContextWindow { used, size }),
        }
    }
}

impl<'a> OutcomeBody<'a> {
    pub(super) fn of(outcome: &'a Outcome) -> Self {
        Self {
            status: outcome.status.as_str().into(),
            text: (&*outcome.text).into(),
            reason: (&*outcome.reason).into(),
            usage: UsageBody::of(&outcome.usage),
            failure: outcome.status.failure().map(FailureBody::of),
            resumes_at: match outcome.status {
                TurnStatus::Parked { resumes_at } => Some(resumes_at),
                _ => None,
            },
        }
    }

    fn into_outcome(self) -> Outcome {
        let status = match (&*self.status, self.failure, self.resumes_at) {
            ("completed", ..) => TurnStatus::Completed,
            ("partial", ..) => TurnStatus::Partial,
            ("interrupted", ..) => TurnStatus::Interrupted,
            ("parked", _, Some(resumes_at)) => TurnStatus::Parked { resumes_at },
            (_, Some(failure), _) => TurnStatus::Failed(failure.into_failure()),
            (other, None, _) => {
                TurnStatus::Failed(unreadable_failure(&format!("status `{other}`")))
            }
        };
        Outcome {
            status,
            text: self.text.into(),
            reason: self.reason.into(),
            usage: self.usage.into_usage(),
        }
    }
}

/// Decodes the outcome in the body of a `finished` event.
pub(super) fn decode(body: &str) -> Outcome {
    match serde_json::from_str::<OutcomeBody<'_>>(body) {
        Ok(body) => body.into_outcome(),
        Err(error) => Outcome {
            status: TurnStatus::Failed(unreadable_failure(&error.to_string())),
            text: "".into(),
            reason: "unreadable record".into(),
            usage: Usage::default(),
        },
    }
}

fn unreadable_failure(what: &str) -> Failure {
    let message = format!("the record of how this turn ended cannot be read ({what})");
    Failure::new(FailureKind::Internal, message)
        .with_hint("if a newer version of angelia wrote it, use that one")
}

impl<'a> FailureBody<'a> {
    fn of(failure: &'a Failure) -> Self {
        Self {
            kind: failure.kind.as_str().into(),
            message: (&*failure.message).into(),
            hint: failure.hint.as_deref().map(Cow::Borrowed),
            retry_after: failure.retry_after,
        }
    }

    fn into_failure(self) -> Failure {
        Failure {
            kind: FailureKind::parse(&self.kind).unwrap_or(FailureKind::Internal),
            message: self.message.into(),
            hint: self.hint.map(Into::into),
            retry_after: self.retry_after,
        }
    }
}

/// Reads costs back exactly as they were written: `serde_json` alone may be off in the last bit.
mod exact {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::value::RawValue;

    #[expect(clippy::ref_option, reason = "the signature serde asks for")]
    pub(super) fn serialize<S: Serializer>(
        number: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(raw.get().parse().ok())
    }
}
