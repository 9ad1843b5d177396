//! The notices about compactions.

use std::time::Duration;

use angelia_core::model::{Failure, Notice, NoticeLevel};
use serde::Serialize;
use serde_json::value::to_raw_value;

const FAILED: &str = "compaction_failed";

/// The cause of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Trigger {
    /// The provider has counted too many tokens.
    Usage,
    /// The next request would not fit.
    Estimate,
    /// The provider has refused a request that does not fit.
    Overflow,
    /// A person asked for it.
    Demand,
}

/// The fields of `compacting`.
#[derive(Serialize)]
struct BeginDetail {
    trigger: Trigger,
    before_tokens: u64,
    window: Option<u64>,
}

/// The fields of `compacted`.
#[derive(Serialize)]
struct EndDetail {
    trigger: Trigger,
    before_tokens: u64,
    after_tokens: u64,
    messages_left_out: usize,
}

/// The fields of `compaction_failed`.
#[derive(Serialize)]
struct FailureDetail {
    /// How long compaction is not tried again automatically.
    retry_after_seconds: Option<u64>,
    /// Compaction is not tried again unless a person asks for it.
    is_off: bool,
}

pub(super) fn begun(trigger: Trigger, before: u64, window: Option<u64>) -> Notice {
    let text = match window {
        Some(window) => format!("the conversation is being shortened: {before} of {window} tokens"),
        None => format!("the conversation is being shortened: about {before} tokens"),
    };
    let detail = BeginDetail { trigger, before_tokens: before, window };
    with_detail(Notice::new(NoticeLevel::Info, "compacting", text), &detail)
}

pub(super) fn done(trigger: Trigger, before: u64, after: u64, left_out: usize) -> Notice {
    let detail = EndDetail {
        trigger,
        before_tokens: before,
        after_tokens: after,
        messages_left_out: left_out,
    };
    let notice = Notice::new(NoticeLevel::Info, "compacted", done_text(before, after));
    with_detail(notice, &detail)
}

pub(super) fn done_text(before: u64, after: u64) -> String {
    format!("the conversation was shortened from {before} to about {after} tokens")
}

/// `wait` is how long compaction is not tried again; `None` if the conversation was shortened
/// without a summary.
pub(super) fn failed(failure: &Failure, wait: Option<Duration>) -> Notice {
    let words = &failure.message;
    let text = match wait {
        Some(wait) => format!(
            "the conversation could not be shortened, and nothing of it was left out: {words}; it \
             will be tried again in {} s at the earliest, or with `/compact`",
            wait.as_secs()
        ),
        None => format!("there is no summary of what is left out: {words}"),
    };
    let detail =
        FailureDetail { retry_after_seconds: wait.map(|wait| wait.as_secs()), is_off: false };
    with_detail(Notice::new(NoticeLevel::Warning, FAILED, text), &detail)
}

/// Says that compaction is no longer tried automatically, because it does not help.
pub(super) fn switched_off() -> Notice {
    let text = "shortening the conversation has not helped twice in a row, so it is no longer \
                tried automatically; use `/compact`, or start a new session";
    let detail = FailureDetail { retry_after_seconds: None, is_off: true };
    with_detail(Notice::new(NoticeLevel::Warning, FAILED, text), &detail)
}

fn with_detail(notice: Notice, detail: &impl Serialize) -> Notice {
    match to_raw_value(detail) {
        Ok(detail) => notice.with_detail(detail.into()),
        Err(_) => notice,
    }
}
