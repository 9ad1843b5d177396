//! The parameters of notifications, except items.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// The thread, turn and item of a notification, and the few fields that many notifications share.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct NotificationParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    pub(crate) item_id: Lenient<BorrowedStr<'a>>,
    pub(crate) delta: Lenient<BorrowedStr<'a>>,
    pub(crate) summary_index: Lenient<u32>,
    pub(crate) content_index: Lenient<u32>,
    pub(crate) message: Lenient<BorrowedStr<'a>>,
    pub(crate) changes: Option<&'a RawValue>,
    pub(crate) request_id: Option<&'a RawValue>,
}

impl<'a> NotificationParams<'a> {
    pub(crate) fn parse(params: &'a RawValue) -> Self {
        serde_json::from_str(params.get()).unwrap_or_default()
    }
}

/// `turn/started`, `turn/completed`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct TurnParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) turn: Lenient<WireTurn<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct WireTurn<'a> {
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    pub(crate) error: Lenient<TurnError<'a>>,
    /// At the end of a turn: its last message, if any.
    pub(crate) items: Lenient<Vec<&'a RawValue>>,
    /// Seconds since 1970.
    pub(crate) completed_at: Lenient<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ErrorParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    pub(crate) error: Lenient<TurnError<'a>>,
    pub(crate) will_retry: Lenient<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct TurnError<'a> {
    pub(crate) message: Lenient<BorrowedStr<'a>>,
    pub(crate) codex_error_info: Option<&'a RawValue>,
    pub(crate) additional_details: Lenient<BorrowedStr<'a>>,
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
            http_status_code: Lenient<u16>,
        }
        let Some(raw) = raw.map(RawValue::get) else {
            return Self::default();
        };
        if let Ok(name) = serde_json::from_str::<BorrowedStr<'_>>(raw) {
            return Self { name: Some((*name).into()), status: None };
        }
        let object: std::collections::BTreeMap<String, Lenient<Detail>> =
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
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct UsageParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    pub(crate) token_usage: Lenient<TokenUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenUsage {
    /// The total for the thread since it began.
    pub(crate) total: Lenient<TokenUsageBreakdown>,
    /// The tokens of the model's latest response.
    pub(crate) last: Lenient<TokenUsageBreakdown>,
    /// The capacity of the model's context.
    #[serde(rename = "modelContextWindow")]
    pub(crate) window: Lenient<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenUsageBreakdown {
    /// In `last`, this may be set while the other counts are zero; the app-server has then
    /// estimated it.
    #[serde(rename = "totalTokens")]
    pub(crate) total: Lenient<u64>,
    #[serde(rename = "inputTokens")]
    pub(crate) input: Lenient<u64>,
    /// Part of `input`.
    #[serde(rename = "cachedInputTokens")]
    pub(crate) cached: Lenient<u64>,
    /// Part of `input`.
    #[serde(rename = "cacheWriteInputTokens")]
    pub(crate) cache_write: Lenient<u64>,
    #[serde(rename = "outputTokens")]
    pub(crate) output: Lenient<u64>,
}

/// `account/rateLimits/updated`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RateLimitParams<'a> {
    #[serde(borrow, default)]
    pub(crate) rate_limits: Lenient<RateLimitSnapshot<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct RateLimitSnapshot<'a> {
    pub(crate) primary: Lenient<RateLimitWindow>,
    pub(crate) secondary: Lenient<RateLimitWindow>,
    pub(crate) plan_type: Lenient<BorrowedStr<'a>>,
    pub(crate) rate_limit_reached_type: Lenient<BorrowedStr<'a>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RateLimitWindow {
    pub(crate) used_percent: Lenient<f64>,
    /// Seconds since 1970.
    pub(crate) resets_at: Lenient<i64>,
    pub(crate) window_duration_mins: Lenient<u64>,
}

/// `turn/plan/updated`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct PlanParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    pub(crate) plan: Lenient<Vec<TurnPlanStep<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct TurnPlanStep<'a> {
    pub(crate) step: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
}

/// `mcpServer/startupStatus/updated`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct McpServerStatusParams<'a> {
    pub(crate) name: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    pub(crate) error: Lenient<BorrowedStr<'a>>,
}

/// `model/rerouted`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ReroutedParams<'a> {
    pub(crate) from_model: Lenient<BorrowedStr<'a>>,
    pub(crate) to_model: Lenient<BorrowedStr<'a>>,
    pub(crate) reason: Lenient<BorrowedStr<'a>>,
}

/// `thread/settings/updated`, `thread/status/changed`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ThreadParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) thread_settings: Lenient<ReportedThreadSettings<'a>>,
    pub(crate) status: Lenient<ThreadStatus<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ReportedThreadSettings<'a> {
    #[serde(borrow, default)]
    pub(crate) model: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ThreadStatus<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
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
