//! The JSON types of the Messages API, limited to what we use.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::request::SchemaText;
use crate::lenient::{BorrowedStr, Lenient};

/// The body of a request. The fields are serialised in this order, so the messages come last.
#[derive(Serialize)]
pub(super) struct MessagesBody<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u64,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<MessagesTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ChosenTool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<RequestBlock<'a>>,
    /// The messages are encoded separately and inserted here.
    pub(super) messages: [RequestMessage<'a>; 0],
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Thinking {
    Adaptive { display: &'static str },
    Enabled { budget_tokens: u64 },
}

#[derive(Serialize)]
pub(super) struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputFormat<'a> {
    JsonSchema { schema: &'a RawValue },
}

#[derive(Serialize)]
pub(super) struct MessagesTool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    pub(super) input_schema: SchemaText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChosenTool<'a> {
    None,
    Any,
    Tool { name: &'a str },
}

#[derive(Serialize)]
pub(super) struct RequestMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: Vec<RequestBlock<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum RequestBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheMark>,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheMark>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<RequestBlock<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheMark>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
pub(super) struct ImageSource<'a> {
    pub(super) media_type: &'a str,
    pub(super) data: String,
}

/// Asks the provider to cache everything up to here.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(in super::super) struct CacheMark {}

impl CacheMark {
    /// The bytes of a mark in an object that has other fields before it. A JSON string cannot
    /// contain them, because its quotes are escaped.
    pub(in super::super) const FIELD: &'static str = r#","cache_control":{"type":"ephemeral"}"#;
}

/// Any frame of an answer.
#[derive(Deserialize)]
pub(super) struct MessagesFrame<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Lenient<BorrowedStr<'a>>,
    #[serde(default)]
    pub(super) index: Lenient<u64>,
    #[serde(borrow, default)]
    pub(super) message: Lenient<MessagesAnswer<'a>>,
    #[serde(borrow, default)]
    pub(super) content_block: Lenient<AnswerBlock<'a>>,
    #[serde(borrow, default)]
    pub(super) delta: Lenient<BlockDelta<'a>>,
    #[serde(default)]
    pub(super) usage: Lenient<MessagesUsage>,
}

/// A complete message, or the head of a streamed one.
#[derive(Deserialize)]
pub(super) struct MessagesAnswer<'a> {
    #[serde(borrow, default)]
    pub(super) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Lenient<Vec<AnswerBlock<'a>>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Lenient<BorrowedStr<'a>>,
    #[serde(default)]
    pub(super) usage: Lenient<MessagesUsage>,
    /// Present in an error instead of a message.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct AnswerBlock<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// The delta of a block, or of the message itself.
#[derive(Deserialize)]
pub(super) struct BlockDelta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) partial_json: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Lenient<BorrowedStr<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct MessagesUsage {
    #[serde(default)]
    pub(super) input_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) output_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) cache_read_input_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) cache_creation_input_tokens: Lenient<u64>,
}
