//! The notices about failed requests.

use std::{fmt::Write as _, time::Duration};

use angelia_core::model::{Notice, NoticeLevel};
use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::native::{
    answer_reader::StreamDrop,
    provider::{ErrorClass, ProviderError},
};

/// The fields of `stream_dropped`.
#[derive(Serialize)]
struct DropDetail<'a> {
    attempt: u32,
    of: u32,
    status: u16,
    request_id: Option<&'a str>,
    provider_id: Option<&'a str>,
    bytes: u64,
    frames: u64,
    ttfb_ms: Option<u128>,
    elapsed_ms: u128,
    cause: &'a [String],
    in_tool_call: bool,
}

/// Describes an answer that broke off or never began: attempt number `attempt` of at most `of`.
pub(super) fn stream_dropped(
    drop: &StreamDrop,
    (attempt, of): (u32, u32),
    next: Option<Duration>,
) -> Notice {
    let mut text = match drop.ttfb {
        Some(_) => format!(
            "the answer broke off after {} bytes in {:.1} s",
            drop.bytes,
            drop.elapsed.as_secs_f64()
        ),
        None => "there was no answer".to_owned(),
    };
    for cause in &drop.cause {
        text.extend([": ", cause]);
    }
    if let Some(after) = next {
        let _infallible = write!(
            text,
            "; asking again in {:.1} s (attempt {attempt} of {of})",
            after.as_secs_f64()
        );
    }
    let notice = Notice::new(NoticeLevel::Warning, "stream_dropped", text);
    let detail = DropDetail {
        attempt,
        of,
        status: drop.status,
        request_id: drop.request_id.as_deref(),
        provider_id: drop.provider_id.as_deref(),
        bytes: drop.bytes,
        frames: drop.frames,
        ttfb_ms: drop.ttfb.map(|time| time.as_millis()),
        elapsed_ms: drop.elapsed.as_millis(),
        cause: &drop.cause,
        in_tool_call: drop.in_tool_call,
    };
    match to_raw_value(&detail) {
        Ok(detail) => notice.with_detail(detail.into()),
        Err(_) => notice,
    }
}

/// Says why and when a request is sent again after an error of the provider.
pub(super) fn retrying(error: &ProviderError, after: Duration) -> Notice {
    let (code, words) = if error.class == ErrorClass::RateLimited {
        ("rate_limited", "the provider limits requests")
    } else {
        ("retrying", "the provider failed")
    };
    let text = format!("{words}: {}; asking again in {:.1} s", error.message, after.as_secs_f64());
    Notice::new(NoticeLevel::Warning, code, text)
}
