//! The shapes of the CLI's lines, as far as we look into them.
//!
//! Two stages: [`Head`] says what a line is, borrowing everything, and has the stream's events,
//! of which there are the most, with it; the struct of its kind takes what else is needed. Only the
//! hot shapes (`Head`, [`Event`]) are strict. Everywhere else a field is [`Soft`]: a value of an
//! unexpected type counts as absent, so that no change of a detail can make a whole line unreadable.
//! Key order is made use of, never assumed.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::string;
pub(crate) use crate::lenient::{Soft, Text};

/// The uuids of the user messages a line belongs to; one field or the other, or both.
#[derive(Default, Deserialize)]
pub(crate) struct Uuids<'a> {
    #[serde(borrow, default)]
    user_message_uuids: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    user_message_uuid: Soft<Text<'a>>,
}

impl<'a> Uuids<'a> {
    fn take(many: &mut Soft<Vec<Text<'a>>>, one: &mut Soft<Text<'a>>) -> Self {
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

/// What every line is looked at for first.
#[derive(Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) subtype: Option<Text<'a>>,
    /// Of `stream_event` lines, as the next.
    #[serde(borrow, default)]
    pub(crate) event: Option<Event<'a>>,
    #[serde(borrow, default)]
    pub(crate) parent_tool_use_id: Option<Text<'a>>,
}

impl<'a> Head<'a> {
    /// `None`: not JSON, or nothing that says what it is. What says it at once may be broken
    /// further on.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        if let Some(head) = Self::from_beginning(line) {
            return Some(head);
        }
        if let Ok(head) = serde_json::from_str(line) {
            return Some(head);
        }
        // Some detail is not as we know it; what the line is may still be clear.
        let head: LooseHead<'a> = serde_json::from_str(line).ok()?;
        Some(Self {
            kind: head.kind.0?,
            subtype: head.subtype.0,
            event: None,
            parent_tool_use_id: head.parent_tool_use_id.0,
        })
    }

    /// Of a line whose first keys say enough, as the CLI writes them: whoever knows its kind reads
    /// all of it anyway, and notices if it is broken.
    fn from_beginning(line: &'a str) -> Option<Self> {
        let (kind, rest) = string(line.strip_prefix(r#"{"type":""#)?)?;
        let subtype = match kind {
            "assistant" | "user" | "result" | "control_request" | "control_response"
            | "command_lifecycle" => None,
            "system" => Some(string(rest.strip_prefix(r#","subtype":""#)?)?.0),
            _ => return None,
        };
        Some(Self {
            kind: Text(kind.into()),
            subtype: subtype.map(|subtype| Text(subtype.into())),
            event: None,
            parent_tool_use_id: None,
        })
    }
}

#[derive(Deserialize)]
struct LooseHead<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    subtype: Soft<Text<'a>>,
    #[serde(borrow, default)]
    parent_tool_use_id: Soft<Text<'a>>,
}

/// The API's own stream event inside a `stream_event` line.
#[derive(Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Text<'a>,
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(crate) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) thinking: Option<Text<'a>>,
}

/// What stands beside `event` when a message ends.
#[derive(Deserialize)]
pub(crate) struct StreamTail<'a> {
    #[serde(borrow, default)]
    pub(crate) abandoned_blocks: Soft<Abandoned<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Abandoned<'a> {
    #[serde(borrow, default)]
    pub(crate) api_message_id: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) from_block_index: Soft<u32>,
}

/// `assistant` and `user` lines.
#[derive(Deserialize)]
pub(crate) struct MessageLine<'a> {
    #[serde(borrow, default)]
    user_message_uuids: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    user_message_uuid: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Soft<Message<'a>>,
    #[serde(borrow, default)]
    pub(crate) parent_tool_use_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) uuid: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) timestamp: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) api_error_status: Soft<u16>,
    #[serde(borrow, default)]
    pub(crate) api_error: Soft<Text<'a>>,
    #[serde(rename = "isReplay", default)]
    pub(crate) is_replay: Soft<bool>,
    #[serde(rename = "isSynthetic", default)]
    pub(crate) is_synthetic: Soft<bool>,
    #[serde(borrow, default)]
    pub(crate) tool_use_result: Option<&'a RawValue>,
}

impl<'a> MessageLine<'a> {
    pub(crate) fn uuids(&mut self) -> Uuids<'a> {
        Uuids::take(&mut self.user_message_uuids, &mut self.user_message_uuid)
    }
}

#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) stop_reason: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) usage: Soft<ApiUsage>,
}

/// `message.model` of what the CLI itself says in the model's place.
pub(crate) const SYNTHETIC: &str = "<synthetic>";

/// One block of a message's content, of whichever type.
#[derive(Default, Deserialize)]
pub(crate) struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) text: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) thinking: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) is_error: Soft<bool>,
}

/// A message's content: text, or blocks with the bytes they came in.
pub(crate) enum Content<'a> {
    Text(Text<'a>),
    Blocks(Vec<(&'a RawValue, Block<'a>)>),
}

impl<'a> Content<'a> {
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

/// `system` lines; the fields of all subtypes that we read.
#[derive(Deserialize)]
pub(crate) struct System<'a> {
    #[serde(borrow, default)]
    user_message_uuids: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    user_message_uuid: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) session_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Soft<Text<'a>>,
    #[serde(rename = "apiKeySource", borrow, default)]
    pub(crate) api_key_source: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) compact_result: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) compact_error: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) compact_metadata: Soft<CompactMetadata>,
    #[serde(default)]
    pub(crate) attempt: Soft<u32>,
    #[serde(default)]
    pub(crate) max_retries: Soft<u32>,
    #[serde(default)]
    pub(crate) retry_delay_ms: Soft<f64>,
    #[serde(default)]
    pub(crate) error_status: Soft<u16>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) original_model: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) fallback_model: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) level: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Soft<Text<'a>>,
}

impl<'a> System<'a> {
    pub(crate) fn uuids(&mut self) -> Uuids<'a> {
        Uuids::take(&mut self.user_message_uuids, &mut self.user_message_uuid)
    }
}

#[derive(Deserialize)]
pub(crate) struct CompactMetadata {
    #[serde(default)]
    pub(crate) pre_tokens: Soft<u64>,
    #[serde(default)]
    pub(crate) post_tokens: Soft<u64>,
}

/// `system/task_*` and `system/background_tasks_changed`.
#[derive(Deserialize)]
pub(crate) struct TaskLine<'a> {
    #[serde(borrow, default)]
    pub(crate) task_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) is_backgrounded: Soft<bool>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) patch: Soft<TaskPatch<'a>>,
    #[serde(borrow, default)]
    pub(crate) tasks: Soft<Vec<TaskItem<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct TaskPatch<'a> {
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) is_backgrounded: Soft<bool>,
}

#[derive(Deserialize)]
pub(crate) struct TaskItem<'a> {
    #[serde(borrow, default)]
    pub(crate) task_id: Soft<Text<'a>>,
}

/// `command_lifecycle`.
#[derive(Deserialize)]
pub(crate) struct Lifecycle<'a> {
    #[serde(borrow, default)]
    pub(crate) command_uuid: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) state: Soft<Text<'a>>,
}

/// `rate_limit_event`.
#[derive(Deserialize)]
pub(crate) struct RateLimitLine<'a> {
    #[serde(borrow, default)]
    pub(crate) rate_limit_info: Soft<RateLimitInfo<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct RateLimitInfo<'a> {
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,
    #[serde(rename = "resetsAt", default)]
    pub(crate) resets_at: Soft<i64>,
    #[serde(rename = "rateLimitType", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) utilization: Soft<f64>,
}

/// `result`.
#[derive(Deserialize)]
pub(crate) struct ResultLine<'a> {
    #[serde(borrow, default)]
    user_message_uuids: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    user_message_uuid: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) subtype: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) is_error: Soft<bool>,
    #[serde(borrow, default)]
    pub(crate) result: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) structured_output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) errors: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    pub(crate) stop_reason: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) terminal_reason: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) api_error_status: Soft<u16>,
    #[serde(borrow, default)]
    pub(crate) api_error: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) origin: Soft<Origin<'a>>,
    #[serde(borrow, default)]
    pub(crate) timestamp: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) usage: Soft<ApiUsage>,
    #[serde(rename = "modelUsage", default)]
    pub(crate) model_usage: Soft<ModelUsages>,
    #[serde(default)]
    pub(crate) model_usage_since_last_result: Soft<ModelUsages>,
    #[serde(default)]
    pub(crate) total_cost_usd: Soft<f64>,
}

impl<'a> ResultLine<'a> {
    pub(crate) fn uuids(&mut self) -> Uuids<'a> {
        Uuids::take(&mut self.user_message_uuids, &mut self.user_message_uuid)
    }
}

#[derive(Deserialize)]
pub(crate) struct Origin<'a> {
    #[serde(borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ApiUsage {
    #[serde(rename = "input_tokens", default)]
    pub(crate) input: Soft<u64>,
    #[serde(rename = "output_tokens", default)]
    pub(crate) output: Soft<u64>,
    #[serde(rename = "cache_read_input_tokens", default)]
    pub(crate) cache_read: Soft<u64>,
    #[serde(rename = "cache_creation_input_tokens", default)]
    pub(crate) cache_write: Soft<u64>,
}

pub(crate) type ModelUsages = std::collections::BTreeMap<String, ModelUsage>;

#[derive(Deserialize)]
pub(crate) struct ModelUsage {
    #[serde(rename = "inputTokens", default)]
    pub(crate) input: Soft<u64>,
    #[serde(rename = "outputTokens", default)]
    pub(crate) output: Soft<u64>,
    #[serde(rename = "cacheReadInputTokens", default)]
    pub(crate) cache_read: Soft<u64>,
    #[serde(rename = "cacheCreationInputTokens", default)]
    pub(crate) cache_write: Soft<u64>,
    #[serde(rename = "costUSD", default)]
    pub(crate) cost: Soft<f64>,
    #[serde(rename = "contextWindow", default)]
    pub(crate) window: Soft<u64>,
}

/// `control_request` and `control_cancel_request`: the CLI asks, or takes a question back.
#[derive(Deserialize)]
pub(crate) struct ControlRequest<'a> {
    #[serde(borrow, default)]
    pub(crate) request_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) request: Option<&'a RawValue>,
}

/// The `request` of all subtypes that we read.
#[derive(Default, Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow, default)]
    pub(crate) subtype: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) permission_suggestions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) decision_reason: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) blocked_path: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) agent_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) server_name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) callback_id: Soft<Text<'a>>,
}

/// `control_response`: the answer to one of our requests.
#[derive(Deserialize)]
pub(crate) struct ControlResponse<'a> {
    #[serde(borrow, default)]
    pub(crate) response: Soft<Response<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Response<'a> {
    #[serde(borrow, default)]
    pub(crate) subtype: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) request_id: Soft<Text<'a>>,
    #[serde(rename = "response", borrow, default)]
    pub(crate) payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<Text<'a>>,
}
