//! The types of the CLI's lines, with the fields that we read.
//!
//! Parsing has two stages. [`LineHead`] gives the type of a line, borrows everything and includes
//! stream events, which are the most frequent; the struct for that type then reads the other
//! fields. Only the hot types (`LineHead`, [`StreamEvent`]) are strict. Everywhere else a field is
//! [`Lenient`]: a value of an unexpected type counts as absent, so that a changed detail never
//! makes a whole line unreadable. Key order is used as a shortcut but never required.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::string;
pub(crate) use crate::lenient::{Soft, Text};

/// The uuids of the user messages that a line belongs to; either or both fields may be present.
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

/// The fields of every line that are read first.
#[derive(Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) subtype: Option<Text<'a>>,
    /// Only on `stream_event` lines, like `parent_tool_use_id`.
    #[serde(borrow, default)]
    pub(crate) event: Option<Event<'a>>,
    #[serde(borrow, default)]
    pub(crate) parent_tool_use_id: Option<Text<'a>>,
}

impl<'a> Head<'a> {
    /// Parses the head. Returns `None` if the line is not JSON or has no `type`. A line whose first
    /// keys are enough may still be invalid further on.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        if let Some(head) = Self::from_beginning(line) {
            return Some(head);
        }
        if let Ok(head) = serde_json::from_str(line) {
            return Some(head);
        }
        // A field has an unexpected type; `type` may still be readable.
        let head: LooseHead<'a> = serde_json::from_str(line).ok()?;
        Some(Self {
            kind: head.kind.0?,
            subtype: head.subtype.0,
            event: None,
            parent_tool_use_id: head.parent_tool_use_id.0,
        })
    }

    /// Reads the head from the first keys alone, in the order in which the CLI writes them. The
    /// handler of the line's type parses the whole line anyway and detects invalid JSON.
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

/// The fields beside `event` when a message ends.
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

/// `message.model` of a message that the CLI itself writes in place of the model.
pub(crate) const SYNTHETIC: &str = "<synthetic>";

/// One block of a message's content, of any type.
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

/// A message's content: text, or blocks with their raw JSON.
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

/// `system` lines, with the fields of all subtypes that we read.
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

/// `control_request` and `control_cancel_request`: a request of the CLI, or its withdrawal.
#[derive(Deserialize)]
pub(crate) struct ControlRequest<'a> {
    #[serde(borrow, default)]
    pub(crate) request_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) request: Option<&'a RawValue>,
}

/// `control_request.request`, with the fields of all subtypes that we read.
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

/// `control_response`: the response to one of our requests.
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
