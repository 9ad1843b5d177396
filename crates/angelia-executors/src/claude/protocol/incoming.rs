//! The types of the CLI's lines, with the fields that we read.
//!
//! Parsing has two stages. [`LineHead`] yields the type of a line and borrows everything. It
//! includes stream events, which are the most frequent lines. The struct for that type then reads
//! the other fields. Only the hot types (`LineHead`, [`StreamEvent`]) are strict. Everywhere else a
//! field is [`Lenient`]: a value of an unexpected type counts as absent, so that a changed detail
//! never makes a whole line unreadable. The order of keys does not matter.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use crate::lenient::{BorrowedStr, Lenient};

/// The uuids of the user messages that a line belongs to. One or both fields may be present.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct MessageUuids<'a> {
    user_message_uuids: Lenient<Vec<BorrowedStr<'a>>>,
    user_message_uuid: Lenient<BorrowedStr<'a>>,
}

impl<'a> MessageUuids<'a> {
    fn take(many: &mut Lenient<Vec<BorrowedStr<'a>>>, one: &mut Lenient<BorrowedStr<'a>>) -> Self {
        Self { user_message_uuids: std::mem::take(many), user_message_uuid: std::mem::take(one) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.user_message_uuid.0.is_none()
            && self.user_message_uuids.0.as_deref().is_none_or(<[_]>::is_empty)
    }

    pub(crate) fn contains(&self, uuid: &str) -> bool {
        self.user_message_uuid.as_str() == Some(uuid)
            || (self.user_message_uuids.0.iter().flatten()).any(|one| **one == *uuid)
    }
}

/// The fields of a line that are read first.
#[derive(Deserialize)]
pub(crate) struct LineHead<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: BorrowedStr<'a>,
    #[serde(borrow, default)]
    pub(crate) subtype: Option<BorrowedStr<'a>>,
    /// Present only on `stream_event` lines, like `parent_tool_use_id`.
    #[serde(borrow, default)]
    pub(crate) event: Option<StreamEvent<'a>>,
    #[serde(borrow, default)]
    pub(crate) parent_tool_use_id: Option<BorrowedStr<'a>>,
}

impl<'a> LineHead<'a> {
    /// Parses the head. Returns `None` if the line is not JSON or has no `type`.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        if let Ok(head) = serde_json::from_str(line) {
            return Some(head);
        }
        // Some field has an unexpected type, but `type` may still be readable.
        let head: LenientHead<'a> = serde_json::from_str(line).ok()?;
        Some(Self {
            kind: head.kind.0?,
            subtype: head.subtype.0,
            event: None,
            parent_tool_use_id: head.parent_tool_use_id.0,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct LenientHead<'a> {
    #[serde(rename = "type")]
    kind: Lenient<BorrowedStr<'a>>,
    subtype: Lenient<BorrowedStr<'a>>,
    parent_tool_use_id: Lenient<BorrowedStr<'a>>,
}

/// The API's own stream event inside a `stream_event` line.
#[derive(Deserialize)]
pub(crate) struct StreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: BorrowedStr<'a>,
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<StreamDelta<'a>>,
    #[serde(borrow, default)]
    pub(crate) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct StreamDelta<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Option<BorrowedStr<'a>>,
    pub(crate) text: Option<BorrowedStr<'a>>,
    pub(crate) thinking: Option<BorrowedStr<'a>>,
}

/// The fields next to `event` at the end of a message.
#[derive(Deserialize)]
pub(crate) struct StreamTail<'a> {
    #[serde(borrow, default)]
    pub(crate) abandoned_blocks: Lenient<AbandonedBlocks<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct AbandonedBlocks<'a> {
    pub(crate) api_message_id: Lenient<BorrowedStr<'a>>,
    pub(crate) from_block_index: Lenient<u32>,
}

/// `assistant` and `user` lines.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct MessageLine<'a> {
    user_message_uuids: Lenient<Vec<BorrowedStr<'a>>>,
    user_message_uuid: Lenient<BorrowedStr<'a>>,
    pub(crate) message: Lenient<CliMessage<'a>>,
    pub(crate) parent_tool_use_id: Lenient<BorrowedStr<'a>>,
    pub(crate) uuid: Lenient<BorrowedStr<'a>>,
    pub(crate) timestamp: Lenient<BorrowedStr<'a>>,
    pub(crate) error: Lenient<BorrowedStr<'a>>,
    pub(crate) api_error_status: Lenient<u16>,
    pub(crate) api_error: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "isReplay")]
    pub(crate) is_replay: Lenient<bool>,
    #[serde(rename = "isSynthetic")]
    pub(crate) is_synthetic: Lenient<bool>,
    pub(crate) tool_use_result: Option<&'a RawValue>,
}

impl<'a> MessageLine<'a> {
    pub(crate) fn take_uuids(&mut self) -> MessageUuids<'a> {
        MessageUuids::take(&mut self.user_message_uuids, &mut self.user_message_uuid)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct CliMessage<'a> {
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    pub(crate) model: Lenient<BorrowedStr<'a>>,
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) stop_reason: Lenient<BorrowedStr<'a>>,
    pub(crate) usage: Lenient<ApiUsage>,
}

/// `message.model` of a message that the CLI writes in place of the model's.
pub(crate) const SYNTHETIC_MODEL: &str = "<synthetic>";

/// One block of a message's content, of any type.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct CliBlock<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) text: Lenient<BorrowedStr<'a>>,
    pub(crate) thinking: Lenient<BorrowedStr<'a>>,
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    pub(crate) name: Lenient<BorrowedStr<'a>>,
    pub(crate) input: Option<&'a RawValue>,
    pub(crate) tool_use_id: Lenient<BorrowedStr<'a>>,
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) is_error: Lenient<bool>,
}

/// A message's content: text, or blocks with their raw JSON.
pub(crate) enum CliContent<'a> {
    Text(BorrowedStr<'a>),
    Blocks(Vec<(&'a RawValue, CliBlock<'a>)>),
}

impl<'a> CliContent<'a> {
    pub(crate) fn parse(raw: Option<&'a RawValue>) -> Self {
        let Some(raw) = raw else {
            return Self::Blocks(Vec::new());
        };
        if raw.get().starts_with('"')
            && let Ok(text) = serde_json::from_str(raw.get())
        {
            return Self::Text(text);
        }
        let blocks: Vec<&'a RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
        let parse = |raw: &'a RawValue| (raw, serde_json::from_str(raw.get()).unwrap_or_default());
        Self::Blocks(blocks.into_iter().map(parse).collect())
    }
}

/// `system` lines, with the fields that we read from all subtypes.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct SystemLine<'a> {
    user_message_uuids: Lenient<Vec<BorrowedStr<'a>>>,
    user_message_uuid: Lenient<BorrowedStr<'a>>,
    pub(crate) session_id: Lenient<BorrowedStr<'a>>,
    pub(crate) model: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "apiKeySource")]
    pub(crate) api_key_source: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    pub(crate) compact_result: Lenient<BorrowedStr<'a>>,
    pub(crate) compact_error: Lenient<BorrowedStr<'a>>,
    pub(crate) compact_metadata: Lenient<CompactMetadata>,
    pub(crate) attempt: Lenient<u32>,
    pub(crate) max_retries: Lenient<u32>,
    pub(crate) retry_delay_ms: Lenient<f64>,
    pub(crate) error_status: Lenient<u16>,
    pub(crate) error: Lenient<BorrowedStr<'a>>,
    pub(crate) original_model: Lenient<BorrowedStr<'a>>,
    pub(crate) fallback_model: Lenient<BorrowedStr<'a>>,
    pub(crate) content: Lenient<BorrowedStr<'a>>,
    pub(crate) level: Lenient<BorrowedStr<'a>>,
    pub(crate) tool_name: Lenient<BorrowedStr<'a>>,
    pub(crate) message: Lenient<BorrowedStr<'a>>,
}

impl<'a> SystemLine<'a> {
    pub(crate) fn take_uuids(&mut self) -> MessageUuids<'a> {
        MessageUuids::take(&mut self.user_message_uuids, &mut self.user_message_uuid)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompactMetadata {
    pub(crate) pre_tokens: Lenient<u64>,
    pub(crate) post_tokens: Lenient<u64>,
}

/// `system/task_*` and `system/background_tasks_changed`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct TaskLine<'a> {
    pub(crate) task_id: Lenient<BorrowedStr<'a>>,
    pub(crate) tool_use_id: Lenient<BorrowedStr<'a>>,
    pub(crate) is_backgrounded: Lenient<bool>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    pub(crate) patch: Lenient<TaskPatch<'a>>,
    pub(crate) tasks: Lenient<Vec<TaskItem<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct TaskPatch<'a> {
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    pub(crate) is_backgrounded: Lenient<bool>,
}

#[derive(Deserialize)]
pub(crate) struct TaskItem<'a> {
    #[serde(borrow, default)]
    pub(crate) task_id: Lenient<BorrowedStr<'a>>,
}

/// `command_lifecycle`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct LifecycleLine<'a> {
    pub(crate) command_uuid: Lenient<BorrowedStr<'a>>,
    pub(crate) state: Lenient<BorrowedStr<'a>>,
}

/// `rate_limit_event`.
#[derive(Deserialize)]
pub(crate) struct RateLimitLine<'a> {
    #[serde(borrow, default)]
    pub(crate) rate_limit_info: Lenient<RateLimitInfo<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct RateLimitInfo<'a> {
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "resetsAt")]
    pub(crate) resets_at: Lenient<i64>,
    #[serde(rename = "rateLimitType")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) utilization: Lenient<f64>,
    #[serde(rename = "unifiedWindows")]
    pub(crate) windows: Lenient<BTreeMap<String, RateLimitWindowInfo<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct RateLimitWindowInfo<'a> {
    pub(crate) status: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "resetsAt")]
    pub(crate) resets_at: Lenient<i64>,
    pub(crate) utilization: Lenient<f64>,
}

/// `result`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct ResultLine<'a> {
    user_message_uuids: Lenient<Vec<BorrowedStr<'a>>>,
    user_message_uuid: Lenient<BorrowedStr<'a>>,
    pub(crate) subtype: Lenient<BorrowedStr<'a>>,
    pub(crate) is_error: Lenient<bool>,
    pub(crate) result: Lenient<BorrowedStr<'a>>,
    pub(crate) structured_output: Option<&'a RawValue>,
    pub(crate) errors: Lenient<Vec<BorrowedStr<'a>>>,
    pub(crate) stop_reason: Lenient<BorrowedStr<'a>>,
    pub(crate) terminal_reason: Lenient<BorrowedStr<'a>>,
    pub(crate) api_error_status: Lenient<u16>,
    pub(crate) api_error: Lenient<BorrowedStr<'a>>,
    pub(crate) origin: Lenient<ResultOrigin<'a>>,
    pub(crate) timestamp: Lenient<BorrowedStr<'a>>,
    pub(crate) usage: Lenient<ApiUsage>,
    #[serde(rename = "modelUsage")]
    pub(crate) model_usage: Lenient<ModelUsages>,
    pub(crate) model_usage_since_last_result: Lenient<ModelUsages>,
    pub(crate) total_cost_usd: Lenient<f64>,
}

impl<'a> ResultLine<'a> {
    pub(crate) fn take_uuids(&mut self) -> MessageUuids<'a> {
        MessageUuids::take(&mut self.user_message_uuids, &mut self.user_message_uuid)
    }
}

#[derive(Deserialize)]
pub(crate) struct ResultOrigin<'a> {
    #[serde(borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApiUsage {
    #[serde(rename = "input_tokens")]
    pub(crate) input: Lenient<u64>,
    #[serde(rename = "output_tokens")]
    pub(crate) output: Lenient<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    pub(crate) cache_read: Lenient<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    pub(crate) cache_write: Lenient<u64>,
}

pub(crate) type ModelUsages = std::collections::BTreeMap<String, ModelUsage>;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModelUsage {
    #[serde(rename = "inputTokens")]
    pub(crate) input: Lenient<u64>,
    #[serde(rename = "outputTokens")]
    pub(crate) output: Lenient<u64>,
    #[serde(rename = "cacheReadInputTokens")]
    pub(crate) cache_read: Lenient<u64>,
    #[serde(rename = "cacheCreationInputTokens")]
    pub(crate) cache_write: Lenient<u64>,
    #[serde(rename = "costUSD")]
    pub(crate) cost: Lenient<f64>,
    #[serde(rename = "contextWindow")]
    pub(crate) window: Lenient<u64>,
}
