//! The objects inside events that are also used elsewhere: `usage`, `failure`, `questions`.

use std::{sync::Arc, time::Duration};

use angelia_core::model::{ContextWindow, Failure, FailureKind, Question, QuestionOption, Usage};
use serde::{Deserialize, Serialize};
use serde_with::{As, FromInto};

/// The `usage` object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageJson(#[serde(with = "UsageFields")] pub Usage);

/// The fields of `usage`, in a separate object or directly in the event.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage", default = "Usage::default")]
pub(super) struct UsageFields {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    cost_usd: Option<f64>,
    lane: Option<Arc<str>>,
    prefix_sha256: Option<Arc<str>>,
    // Omitted instead of null when unknown: most readers do not know this field.
    #[serde(skip_serializing_if = "Option::is_none", with = "As::<Option<FromInto<ContextJson>>>")]
    context: Option<ContextWindow>,
}

/// The `context` of `usage`.
#[derive(Serialize, Deserialize)]
struct ContextJson {
    used: u64,
    size: u64,
}

impl From<ContextWindow> for ContextJson {
    fn from(ContextWindow { used, size }: ContextWindow) -> Self {
        Self { used, size }
    }
}

impl From<ContextJson> for ContextWindow {
    fn from(ContextJson { used, size }: ContextJson) -> Self {
        Self { used, size }
    }
}

/// The `failure` object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureJson(#[serde(with = "FailureFields")] pub Failure);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Failure", default = "unnamed_failure")]
struct FailureFields {
    #[serde(with = "FailureKindJson")]
    kind: FailureKind,
    message: Arc<str>,
    hint: Option<Arc<str>>,
    #[serde(with = "As::<Option<FromInto<WaitJson>>>")]
    retry_after: Option<Duration>,
}

fn unnamed_failure() -> Failure {
    Failure::new(FailureKind::Internal, "")
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FailureKind", rename_all = "snake_case")]
enum FailureKindJson {
    Auth,
    RateLimited,
    Unavailable,
    Invalid,
    Refused,
    Timeout,
    Agent,
    /// A kind that only a newer daemon knows is still a failure.
    #[serde(other)]
    Internal,
}

/// A wait in whole seconds.
#[derive(Serialize, Deserialize)]
struct WaitJson(u64);

impl From<Duration> for WaitJson {
    fn from(wait: Duration) -> Self {
        Self(ceil_seconds(wait))
    }
}

impl From<WaitJson> for Duration {
    fn from(WaitJson(seconds): WaitJson) -> Self {
        Self::from_secs(seconds)
    }
}

/// Rounds a wait up to whole seconds, so that a client that waits this long does not return too
/// early.
pub(crate) fn ceil_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// One of `questions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionJson {
    text: Arc<str>,
    #[serde(default)]
    header: Arc<str>,
    #[serde(default)]
    options: Vec<OptionJson>,
    #[serde(default)]
    multiple: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OptionJson {
    label: Arc<str>,
    #[serde(default)]
    description: Arc<str>,
}

impl From<&Question> for QuestionJson {
    fn from(question: &Question) -> Self {
        let Question { text, header, options, multiple } = question.clone();
        let option = |QuestionOption { label, description }| OptionJson { label, description };
        Self { text, header, options: options.into_iter().map(option).collect(), multiple }
    }
}

impl From<QuestionJson> for Question {
    fn from(QuestionJson { text, header, options, multiple }: QuestionJson) -> Self {
        let option = |OptionJson { label, description }| QuestionOption { label, description };
        Self { text, header, options: options.into_iter().map(option).collect(), multiple }
    }
}
