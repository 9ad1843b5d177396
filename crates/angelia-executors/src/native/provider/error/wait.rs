//! Reads how long a provider wants us to wait, from a header (seconds, milliseconds, a date, the
//! time of a reset) or from its message.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, fmt::rfc2822};

/// Headers with the id of a request; the first one present is used.
pub(in crate::native) const REQUEST_IDS: [&str; 5] =
    ["request-id", "x-request-id", "apim-request-id", "x-generation-id", "cf-ray"];

/// The headers of an error that concern the next attempt.
#[derive(Debug, Default)]
pub(super) struct RetryHeaders {
    pub(super) retry_after: Option<Duration>,
    pub(super) should_retry: Option<bool>,
    pub(super) request_id: Option<Arc<str>>,
}

impl RetryHeaders {
    pub(super) fn read(headers: &[(&str, &str)], now: Timestamp) -> Self {
        let get = |name: &str| {
            headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.trim())
        };
        let exact = get("retry-after-ms")
            .and_then(|text| text.parse().ok())
            .map(|millis: f64| Duration::try_from_secs_f64(millis / 1000.0).unwrap_or_default());
        let after = || get("retry-after").and_then(|text| seconds_or_date(text, now));
        Self {
            retry_after: exact.or_else(after).or_else(|| reset_wait(headers, now)),
            should_retry: get("x-should-retry").and_then(|text| text.parse().ok()),
            request_id: REQUEST_IDS.iter().find_map(|name| get(name)).map(Into::into),
        }
    }
}

fn seconds_or_date(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = rfc2822::parse(text).ok()?.timestamp();
    Some(until(at, now))
}

/// Returns the wait until all exhausted limits are reset.
fn reset_wait(headers: &[(&str, &str)], now: Timestamp) -> Option<Duration> {
    let value = |name: &str| {
        headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.trim())
    };
    let exhausted = headers.iter().filter(|(name, left)| {
        name.contains("ratelimit") && name.contains("remaining") && left.trim() == "0"
    });
    let resets = exhausted.filter_map(|(name, _)| {
        let reset = value(&name.replace("remaining", "reset"))?;
        reset_time(reset, now)
    });
    resets.max()
}

/// Reads a time (RFC 3339, or milliseconds since 1970) or a duration (seconds, or such as `6m0s`).
fn reset_time(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(until(at, now));
    }
    match text.parse::<i64>() {
        Ok(millis) if millis > 1_000_000_000_000 => {
            Timestamp::from_millisecond(millis).ok().map(|at| until(at, now))
        }
        Ok(seconds) => u64::try_from(seconds).ok().map(Duration::from_secs),
        Err(_) => duration(text),
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

/// Finds "try again in 11.05s" in a message.
pub(super) fn wait_in_words(message: &str) -> Option<Duration> {
    let words = message.to_ascii_lowercase();
    let rest = ["try again in ", "retry after ", "retry in "]
        .into_iter()
        .find_map(|before| words.split_once(before))?
        .1;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
    let text = rest[..end].trim_end_matches('.');
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => duration(text),
    }
}

/// Reads `1h2m3.5s`, `850ms`.
fn duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        total += number
            * match &rest[digits..digits + unit] {
                "ms" => 0.001,
                "s" | "sec" | "seconds" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &rest[digits + unit..];
    }
    Duration::try_from_secs_f64(total).ok()
}
