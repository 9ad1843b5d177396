//! The objects inside events that are also used elsewhere: `usage`, `failure`, `questions`.

use std::{sync::Arc, time::Duration};

use angelia_core::model::{ContextWindow, Failure, FailureKind, Question, QuestionOption, Usage};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

/// The `usage` object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageJson(pub Usage);

/// Writes the fields of `usage` into any object.
pub(super) fn write_usage_fields<M: SerializeMap>(
    map: &mut M,
    usage: &Usage,
) -> Result<(), M::Error> {
    map.serialize_entry("input_tokens", &usage.input_tokens)?;
    map.serialize_entry("output_tokens", &usage.output_tokens)?;
    map.serialize_entry("cache_read_tokens", &usage.cache_read_tokens)?;
    map.serialize_entry("cache_write_tokens", &usage.cache_write_tokens)?;
    map.serialize_entry("cost_usd", &usage.cost_usd)?;
    map.serialize_entry("lane", &usage.lane)?;
    map.serialize_entry("prefix_sha256", &usage.prefix_sha256)?;
    // Left out instead of null when unknown: most readers do not know this field.
    match usage.context {
        Some(ContextWindow { used, size }) => {
            map.serialize_entry("context", &ContextJson { used, size })
        }
        None => Ok(()),
    }
}

/// The `context` of `usage`.
#[derive(Serialize, Deserialize)]
struct ContextJson {
    used: u64,
    size: u64,
}

impl Serialize for UsageJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_usage_fields(&mut map, &self.0)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for UsageJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Fields {
            input_tokens: u64,
            output_tokens: u64,
            cache_read_tokens: u64,
            cache_write_tokens: u64,
            cost_usd: Option<f64>,
            lane: Option<Arc<str>>,
            prefix_sha256: Option<Arc<str>>,
            context: Option<ContextJson>,
        }
        let fields = Fields::deserialize(deserializer)?;
        Ok(Self(Usage {
            input_tokens: fields.input_tokens,
            output_tokens: fields.output_tokens,
            cache_read_tokens: fields.cache_read_tokens,
            cache_write_tokens: fields.cache_write_tokens,
            cost_usd: fields.cost_usd,
            lane: fields.lane,
            prefix_sha256: fields.prefix_sha256,
            context: (fields.context)
                .map(|ContextJson { used, size }| ContextWindow { used, size }),
        }))
    }
}

/// The `failure` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureJson(pub Failure);

impl Serialize for FailureJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let failure = &self.0;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("kind", failure.kind.as_str())?;
        map.serialize_entry("message", &failure.message)?;
        map.serialize_entry("hint", &failure.hint)?;
        let retry_after = failure.retry_after.map(ceil_seconds);
        map.serialize_entry("retry_after", &retry_after)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for FailureJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Fields {
            kind: String,
            message: Arc<str>,
            hint: Option<Arc<str>>,
            retry_after: Option<u64>,
        }
        let fields = Fields::deserialize(deserializer)?;
        Ok(Self(Failure {
            // A kind that only a newer daemon knows is still a failure.
            kind: FailureKind::parse(&fields.kind).unwrap_or(FailureKind::Internal),
            message: fields.message,
            hint: fields.hint,
            retry_after: fields.retry_after.map(Duration::from_secs),
        }))
    }
}

/// Rounds a wait up to whole seconds, so that a client that waits as told does not come too early.
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
        let option = |option: &QuestionOption| OptionJson {
            label: Arc::clone(&option.label),
            description: Arc::clone(&option.description),
        };
        Self {
            text: Arc::clone(&question.text),
            header: Arc::clone(&question.header),
            options: question.options.iter().map(option).collect(),
            multiple: question.multiple,
        }
    }
}

impl From<QuestionJson> for Question {
    fn from(question: QuestionJson) -> Self {
        let option = |option: OptionJson| QuestionOption {
            label: option.label,
            description: option.description,
        };
        Self {
            text: question.text,
            header: question.header,
            options: question.options.into_iter().map(option).collect(),
            multiple: question.multiple,
        }
    }
}
