//! Reads the type, code and message of an error from any of the shapes in which servers send them:
//! `{"type":"error","error":{…}}`, `{"error":{…}}`, `{"error":"…"}`, a bare `{"message":…}`, the
//! last frame of a failed response, or plain text.

use serde_json::Value;

use crate::truncation::truncate_chars;

/// Longer messages are cut, because they are usually HTML pages.
const MAX_MESSAGE_CHARS: usize = 2_000;

#[derive(Debug, Default, PartialEq)]
pub(super) struct ErrorBody {
    pub(super) kind: Option<String>,
    pub(super) code: Option<String>,
    pub(super) message: String,
    pub(super) request_id: Option<String>,
    pub(super) is_upstream: bool,
    /// The error gives the reasons of a content policy.
    pub(super) is_moderation: bool,
    /// The size of the window, if it has a field of its own.
    pub(super) window: Option<u64>,
}

impl ErrorBody {
    pub(super) fn read(text: &str) -> Self {
        let Ok(body) = serde_json::from_str::<Value>(text) else {
            let message = truncate_chars(text.trim(), MAX_MESSAGE_CHARS).into_owned();
            return Self { message, ..Self::default() };
        };
        let error = [&body["error"], &body["response"]["error"], &body["choices"][0]["error"]]
            .into_iter()
            .find(|error| !error.is_null())
            .unwrap_or(&body);
        let mut read = Self::of_error(error);
        read.request_id = word(&body["request_id"]);
        if let Some(upstream) = upstream_error(error) {
            read.take_words_of(upstream);
            read.is_upstream = true;
        }
        read
    }

    fn of_error(error: &Value) -> Self {
        let words = [&error["message"], &error["detail"], &error["msg"], error];
        let message = words.into_iter().find_map(Value::as_str).map(str::to_owned);
        let message = message.unwrap_or_else(|| error.to_string());
        Self {
            kind: word(&error["type"]).filter(|kind| kind != "error"),
            code: word(&error["code"]),
            message: truncate_chars(&message, MAX_MESSAGE_CHARS).into_owned(),
            request_id: None,
            is_upstream: false,
            is_moderation: error["metadata"]["reasons"].is_array(),
            window: error["n_ctx"].as_u64(),
        }
    }

    /// Prefers the type and message of the upstream error.
    fn take_words_of(&mut self, upstream: Self) {
        self.kind = upstream.kind.or(self.kind.take());
        if !upstream.message.is_empty() {
            self.message = upstream.message;
        }
    }
}

/// Returns the error of the provider behind an aggregator, which passes it on as text.
fn upstream_error(error: &Value) -> Option<ErrorBody> {
    let metadata = &error["metadata"];
    if metadata["provider_name"].is_null() && metadata["raw"].is_null() {
        return None;
    }
    let raw = match &metadata["raw"] {
        Value::String(text) => ErrorBody::read(text),
        Value::Null => ErrorBody::default(),
        other => ErrorBody::read(&other.to_string()),
    };
    Some(raw)
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
