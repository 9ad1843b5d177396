//! The JSON types of the Messages API: the parts of requests that we read, and everything that we
//! write.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::super::openapi::shapes;

/// Fields that are not listed here are accepted and have no effect.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::http) struct MessagesRequest<'a> {
    #[schemars(required, length(min = 1))]
    pub(super) model: Option<Arc<str>>,
    #[serde(borrow)]
    #[schemars(required, length(min = 1))]
    pub(super) messages: Option<Vec<MessagesRequestMessage<'a>>>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::texts")]
    pub(super) system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::tools")]
    pub(super) tools: Option<Vec<&'a RawValue>>,
    pub(super) tool_choice: Option<MessagesToolChoice>,
    #[serde(borrow)]
    pub(super) output_config: Option<OutputConfig<'a>>,
    /// The former name of `output_config.format`.
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::format")]
    pub(super) output_format: Option<&'a RawValue>,
    #[schemars(range(min = 1))]
    pub(super) max_tokens: Option<u64>,
    /// The answer ends before the first of these.
    #[schemars(length(max = 64))]
    pub(super) stop_sequences: Option<Vec<Arc<str>>>,
    pub(super) stream: Option<bool>,
    pub(super) thread: Option<MessagesThread>,
    /// Refused.
    #[schemars(skip)]
    pub(super) compaction: Option<IgnoredAny>,
    /// Its format differs between models, so it is read only as far as possible.
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::thinking")]
    pub(super) thinking: Option<&'a RawValue>,
}

/// The vendor keeps conversations for some minutes, so that a caller need not send them again.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Thread")]
pub(super) struct MessagesThread {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct MessagesRequestMessage<'a> {
    #[schemars(extend("enum" = ["user", "assistant", "system", "developer"]))]
    pub(super) role: Arc<str>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::blocks")]
    pub(super) content: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct MessagesToolChoice {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["auto", "any", "tool", "none"]))]
    pub(super) kind: String,
    pub(super) name: Option<Arc<str>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MessagesOutputConfig")]
pub(super) struct OutputConfig<'a> {
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::format")]
    pub(super) format: Option<&'a RawValue>,
}

/// One event of a stream; its name is its type.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagesEvent<'a> {
    MessageStart { message: MessagesResponse<'a> },
    ContentBlockStart { index: u32, content_block: MessageBlock<'a> },
    ContentBlockDelta { index: u32, delta: BlockDelta<'a> },
    ContentBlockStop { index: u32 },
    MessageDelta { delta: StopInfo, usage: MessagesUsage },
    MessageStop,
}

impl MessagesEvent<'_> {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        }
    }
}

/// A complete answer, or the start of one.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Message")]
pub(in crate::http) struct MessagesResponse<'a> {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: Vec<MessageBlock<'a>>,
    #[serde(flatten)]
    pub(super) ending: StopInfo,
    pub(super) usage: MessagesUsage,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessageBlock<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        input: &'a RawValue,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the API's own names")]
pub(super) enum BlockDelta<'a> {
    TextDelta { text: &'a str },
    ThinkingDelta { thinking: &'a str },
    SignatureDelta { signature: &'a str },
    InputJsonDelta { partial_json: &'a str },
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct StopInfo {
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<Arc<str>>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "MessageUsage")]
#[expect(clippy::struct_field_names, reason = "the API's own names")]
pub(super) struct MessagesUsage {
    pub(super) input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) output_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MessagesError")]
pub(in crate::http) struct MessagesErrorBody {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) error: MessagesErrorDetail,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MessagesErrorDetail {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<MessagesErrorDetails>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MessagesErrorDetails {
    pub(super) error_code: &'static str,
}

/// The response of `count_tokens`.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct TokenCount {
    pub(super) input_tokens: u64,
    /// Always true: this is not the vendor's count.
    pub(super) estimated: bool,
}
