//! The JSON types of Responses: the parts of requests that we read, and the answers that we write.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{RawJson, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::{super::super::openapi::shapes, errors::ResponseError, tool_names::ToolNames};

/// Fields that are not listed here are accepted and have no effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
pub(in crate::http) struct ResponsesRequest<'a> {
    #[schemars(length(min = 1))]
    pub(super) model: Arc<str>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::input")]
    pub(super) input: Option<&'a RawValue>,
    pub(super) instructions: Option<Arc<str>>,
    pub(super) previous_response_id: Option<Arc<str>>,
    /// Refused.
    #[serde(borrow, default)]
    #[schemars(skip)]
    pub(super) conversation: Option<&'a RawValue>,
    /// Refused.
    #[serde(borrow, default)]
    #[schemars(skip)]
    pub(super) prompt: Option<&'a RawValue>,
    /// Refused.
    #[schemars(extend("const" = false))]
    pub(super) background: Option<bool>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::response_tools")]
    pub(super) tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::choice")]
    pub(super) tool_choice: Option<&'a RawValue>,
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::text_options")]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    pub(super) reasoning: Option<&'a RawValue>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) stream: Option<bool>,
    pub(super) store: Option<bool>,
    pub(super) metadata: Option<Map<String, Value>>,
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    pub(super) temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    pub(super) top_p: Option<&'a RawValue>,
    #[schemars(range(max = 0))]
    pub(super) top_logprobs: Option<u64>,
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    pub(super) truncation: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    pub(super) user: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    pub(super) prompt_cache_key: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct TextOptions<'a> {
    #[serde(borrow)]
    pub(super) format: Option<TextFormat<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct TextFormat<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) schema: Option<&'a RawValue>,
}

/// The parts of a request that are echoed in its response.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestEcho {
    pub(super) tool_names: ToolNames,
    pub(super) instructions: Option<Arc<str>>,
    pub(super) previous_response_id: Option<Arc<str>>,
    pub(super) tools: Vec<RawJson>,
    pub(super) tool_choice: Option<RawJson>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) text: Option<RawJson>,
    pub(super) reasoning: Option<RawJson>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) store: Option<bool>,
    pub(super) metadata: Map<String, Value>,
    pub(super) temperature: Option<RawJson>,
    pub(super) top_p: Option<RawJson>,
    pub(super) truncation: Option<RawJson>,
    pub(super) user: Option<RawJson>,
    pub(super) prompt_cache_key: Option<RawJson>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Response")]
pub(in crate::http) struct ResponseObject<'a> {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) created_at: i64,
    pub(super) status: &'static str,
    pub(super) background: bool,
    pub(super) error: Option<ResponseError>,
    pub(super) incomplete_details: Option<IncompleteDetails>,
    pub(super) instructions: Option<&'a str>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) max_tool_calls: Option<u64>,
    pub(super) model: &'a str,
    pub(super) output: &'a [ResponseItem],
    pub(super) parallel_tool_calls: bool,
    pub(super) previous_response_id: Option<&'a str>,
    #[schemars(with = "Option<Value>")]
    pub(super) prompt_cache_key: Option<&'a RawValue>,
    #[schemars(with = "Value")]
    pub(super) reasoning: &'a RawValue,
    pub(super) service_tier: &'static str,
    pub(super) store: bool,
    #[schemars(with = "Value")]
    pub(super) temperature: &'a RawValue,
    #[schemars(with = "Value")]
    pub(super) text: &'a RawValue,
    #[schemars(with = "Value")]
    pub(super) tool_choice: &'a RawValue,
    #[schemars(with = "Vec<Value>")]
    pub(super) tools: &'a [RawJson],
    pub(super) top_logprobs: u32,
    #[schemars(with = "Value")]
    pub(super) top_p: &'a RawValue,
    #[schemars(with = "Value")]
    pub(super) truncation: &'a RawValue,
    pub(super) usage: Option<ResponseUsage>,
    #[schemars(with = "Option<Value>")]
    pub(super) user: Option<&'a RawValue>,
    pub(super) metadata: &'a Map<String, Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResponseIncomplete")]
pub(super) struct IncompleteDetails {
    pub(super) reason: &'static str,
}

/// An item of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseItem {
    Message {
        id: String,
        status: &'static str,
        role: &'static str,
        content: Vec<TextPart>,
    },
    FunctionCall {
        id: String,
        status: &'static str,
        call_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<Arc<str>>,
        name: Arc<str>,
        arguments: String,
    },
    CustomToolCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: Arc<str>,
        input: String,
    },
    Reasoning {
        id: String,
        summary: Vec<SummaryPart>,
        encrypted_content: Option<()>,
    },
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "output_text")]
pub(super) struct TextPart {
    pub(super) text: String,
    pub(super) annotations: [(); 0],
    pub(super) logprobs: [(); 0],
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "summary_text")]
pub(super) struct SummaryPart {
    pub(super) text: String,
}

impl TextPart {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), annotations: [], logprobs: [] }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResponseInputDetails")]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResponseOutputDetails")]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<&Usage> for ResponseUsage {
    fn from(usage: &Usage) -> Self {
        let input = super::super::prompt_tokens(usage);
        Self {
            input_tokens: input,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
            },
            output_tokens: usage.output_tokens,
            // Agents do not count reasoning tokens separately.
            output_tokens_details: OutputDetails { reasoning_tokens: 0 },
            total_tokens: input.saturating_add(usage.output_tokens),
        }
    }
}
