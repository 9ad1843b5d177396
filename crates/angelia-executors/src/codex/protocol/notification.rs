//! Parameters of notifications, apart from items.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Soft, Text};

/// The thread, turn and item of a notification, and the few fields that many of them share.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Common<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) item_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) delta: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) summary_index: Soft<u32>,
    #[serde(default)]
    pub(crate) content_index: Soft<u32>,
    #[serde(borrow, default)]
    pub(crate) message: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) changes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) request_id: Option<&'a RawValue>,
}

impl<'a> Common<'a> {
    pub(crate) fn parse(params: &'a RawValue) -> Self {
        serde_json::from_str(params.get()).unwrap_or_default()
    }
}

/// `turn/started`, `turn/completed`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn: Soft<Turn<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turn<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<TurnError<'a>>,
    /// At the end of a turn: its last message, if any.
    #[serde(borrow, default)]
    pub(crate) items: Soft<Vec<&'a RawValue>>,
    /// Seconds since 1970.
    #[serde(default)]
    pub(crate) completed_at: Soft<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<TurnError<'a>>,
    #[serde(default)]
    pub(crate) will_retry: Soft<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnError<'a> {
    #[serde(borrow, default)]
    pub(crate) message: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) codex_error_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) additional_details: Soft<Text<'a>>,
}

/// `codexErrorInfo`: a string, or an object with one key whose value may hold an HTTP status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorInfo {
    pub(crate) name: Option<Box<str>>,
    pub(crate) status: Option<u16>,
}

impl ErrorInfo {
    pub(crate) fn of(raw: Option<&RawValue>) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Detail {
            #[serde(default)]
            http_status_code: Soft<u16>,
        }
        let Some(raw) = raw.map(RawValue::get) else {
            return Self::default();
        };
        if let Ok(name) = serde_json::from_str::<Text<'_>>(raw) {
            return Self { name: Some((*name).into()), status: None };
        }
        let object: std::collections::BTreeMap<String, Soft<Detail>> =
            serde_json::from_str(raw).unwrap_or_default();
        let Some((name, detail)) = object.into_iter().next() else {
            return Self::default();
        };
        Self {
            name: Some(name.into()),
            status: detail.0.and_then(|detail| detail.http_status_code.get()),
        }
    }
}

/// `thread/tokenUsage/updated`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) token_usage: Soft<TokenUsage>,
}

#[derive(Deserialize)]
pub(crate) struct TokenUsage {
    /// The sum for the thread since it began.
    #[serde(default)]
    pub(crate) total: Soft<Tokens>,
    /// The tokens of the model's latest response.
    #[serde(default)]
    pub(crate) last: Soft<Tokens>,
    /// The capacity of the model's context.
    #[serde(rename = "modelContextWindow", default)]
    pub(crate) window: Soft<u64>,
}

#[derive(Deserialize)]
pub(crate) struct Tokens {
    /// In `last` it may be set while the other counts are zero: the app-server has then estimated
    /// it.
    #[serde(rename = "totalTokens", default)]
    pub(crate) total: Soft<u64>,
    #[serde(rename = "inputTokens", default)]
    pub(crate) input: Soft<u64>,
    /// A part of `input`.
    #[serde(rename = "cachedInputTokens", default)]
    pub(crate) cached: Soft<u64>,
    /// A part of `input`.
    #[serde(rename = "cacheWriteInputTokens", default)]
    pub(crate) cache_write: Soft<u64>,
    #[serde(rename = "outputTokens", default)]
    pub(crate) output: Soft<u64>,
}

/// `account/rateLimits/updated`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitParams<'a> {
    #[serde(borrow, default)]
    pub(crate) rate_limits: Soft<Limits<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits<'a> {
    #[serde(default)]
    pub(crate) primary: Soft<Window>,
    #[serde(default)]
    pub(crate) secondary: Soft<Window>,
    #[serde(borrow, default)]
    pub(crate) plan_type: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) rate_limit_reached_type: Soft<Text<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Window {
    #[serde(default)]
    pub(crate) used_percent: Soft<f64>,
    /// Seconds since 1970.
    #[serde(default)]
    pub(crate) resets_at: Soft<i64>,
}

/// `turn/plan/updated`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) plan: Soft<Vec<PlanStep<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct PlanStep<'a> {
    #[serde(borrow, default)]
    pub(crate) step: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
}

/// `mcpServer/startupStatus/updated`.
#[derive(Default, Deserialize)]
pub(crate) struct ServerParams<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<Text<'a>>,
}

/// `model/rerouted`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReroutedParams<'a> {
    #[serde(borrow, default)]
    pub(crate) from_model: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) to_model: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reason: Soft<Text<'a>>,
}

/// `thread/settings/updated`, `thread/status/changed`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) thread_settings: Soft<Settings<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Status<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Settings<'a> {
    #[serde(borrow, default)]
    pub(crate) model: Soft<Text<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Status<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_infos_are_words_or_objects_of_one_key() {
        let of = |json: &str| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let info = ErrorInfo::of(Some(&raw));
            (info.name.map(String::from).unwrap_or_default(), info.status)
        };
        assert_eq!(of(r#""other""#), ("other".to_owned(), None));
        let disconnected = r#"{"responseStreamDisconnected":{"httpStatusCode":401}}"#;
        assert_eq!(of(disconnected), ("responseStreamDisconnected".to_owned(), Some(401)));
        assert_eq!(of(r#"{"new":{"httpStatusCode":null}}"#), ("new".to_owned(), None));
        assert_eq!(of(r#"{"new":7}"#), ("new".to_owned(), None));
        assert_eq!(of("[]"), (String::new(), None));
    }
}
