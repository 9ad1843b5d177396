//! The JSON form of usage, failure and outcome on disk. Decoding never fails: a finished turn stays
//! finished, even if a newer version wrote its outcome in an unknown form.

use std::{borrow::Cow, sync::Arc, time::Duration};

use angelia_core::model::{ContextWindow, Failure, FailureKind, Outcome, TurnStatus, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_with::{As, FromInto};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage", default = "Usage::default")]
pub(super) struct UsageBody {
    #[serde(rename = "input")]
    input_tokens: u64,
    #[serde(rename = "output")]
    output_tokens: u64,
    #[serde(rename = "cache_read")]
    cache_read_tokens: u64,
    #[serde(rename = "cache_write")]
    cache_write_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "exact_number")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_sha256: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none", with = "As::<Option<FromInto<ContextBody>>>")]
    context: Option<ContextWindow>,
}

/// Reads a cost exactly as it was written: `serde_json` alone may be off in the last bit.
fn exact_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let raw = <&RawValue>::deserialize(from)?;
    Ok(raw.get().parse().ok())
}

#[derive(Serialize, Deserialize)]
struct ContextBody {
    used: u64,
    size: u64,
}

impl From<ContextWindow> for ContextBody {
    fn from(ContextWindow { used, size }: ContextWindow) -> Self {
        Self { used, size }
    }
}

impl From<ContextBody> for ContextWindow {
    fn from(ContextBody { used, size }: ContextBody) -> Self {
        Self { used, size }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct OutcomeBody {
    status: Cow<'static, str>,
    #[serde(default)]
    text: Arc<str>,
    #[serde(default)]
    reason: Arc<str>,
    #[serde(default, with = "UsageBody")]
    usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumes_at: Option<Timestamp>,
}

/// The `failure` of an outcome. A kind that only a newer version knows is still a failure.
#[derive(Serialize, Deserialize)]
struct FailureBody {
    kind: Cow<'static, str>,
    message: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<Duration>,
}

impl From<Outcome> for OutcomeBody {
    fn from(Outcome { status, text, reason, usage }: Outcome) -> Self {
        let name = Cow::Borrowed(status.as_str());
        let (failure, resumes_at) = match status {
            TurnStatus::Failed(failure) => (Some(failure.into()), None),
            TurnStatus::Parked { resumes_at } => (None, Some(resumes_at)),
            TurnStatus::Completed | TurnStatus::Partial | TurnStatus::Interrupted => (None, None),
        };
        Self { status: name, text, reason, usage, failure, resumes_at }
    }
}

impl From<OutcomeBody> for Outcome {
    fn from(body: OutcomeBody) -> Self {
        let OutcomeBody { status, text, reason, usage, failure, resumes_at } = body;
        let status = match (&*status, failure, resumes_at) {
            ("completed", ..) => TurnStatus::Completed,
            ("partial", ..) => TurnStatus::Partial,
            ("interrupted", ..) => TurnStatus::Interrupted,
            ("parked", _, Some(resumes_at)) => TurnStatus::Parked { resumes_at },
            (_, Some(failure), _) => TurnStatus::Failed(failure.into()),
            (other, None, _) => {
                TurnStatus::Failed(unreadable_failure(&format!("status `{other}`")))
            }
        };
        Self { status, text, reason, usage }
    }
}

impl From<Failure> for FailureBody {
    fn from(Failure { kind, message, hint, retry_after }: Failure) -> Self {
        Self { kind: Cow::Borrowed(kind.as_str()), message, hint, retry_after }
    }
}

impl From<FailureBody> for Failure {
    fn from(FailureBody { kind, message, hint, retry_after }: FailureBody) -> Self {
        let kind = FailureKind::parse(&kind).unwrap_or(FailureKind::Internal);
        Self { kind, message, hint, retry_after }
    }
}

/// Decodes the outcome in the body of a `finished` event.
pub(super) fn decode(body: &str) -> Outcome {
    match serde_json::from_str::<OutcomeBody>(body) {
        Ok(body) => body.into(),
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
