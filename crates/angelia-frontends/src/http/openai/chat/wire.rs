//! The JSON types of Chat Completions: the parts of requests that we read, and the answers that we
//! write.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::super::openapi::shapes;

/// Fields that are not listed here are accepted and have no effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
pub(in crate::http) struct ChatRequest<'a> {
    #[schemars(length(min = 1))]
    pub(super) model: Arc<str>,
    #[serde(borrow)]
    #[schemars(schema_with = "shapes::chat_messages")]
    pub(super) messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::chat_tools")]
    pub(super) tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::choice")]
    pub(super) tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::functions")]
    pub(super) functions: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::choice")]
    pub(super) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(borrow, default)]
    #[schemars(schema_with = "shapes::stop")]
    pub(super) stop: Option<&'a RawValue>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    /// Only one answer is supported.
    #[schemars(range(max = 1))]
    pub(super) n: Option<u64>,
    /// Refused.
    #[schemars(extend("const" = false))]
    pub(super) logprobs: Option<bool>,
    /// Only `text` is supported.
    #[serde(borrow)]
    #[schemars(extend("items" = {"const": "text"}))]
    pub(super) modalities: Option<Vec<Cow<'a, str>>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "ChatStreamOptions")]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "ChatResponseFormat")]
pub(super) struct ResponseFormat<'a> {
    #[serde(rename = "type", borrow)]
    #[schemars(extend("enum" = ["text", "json_object", "json_schema"]))]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) json_schema: Option<SchemaFormat<'a>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(rename = "ChatJsonSchema")]
pub(super) struct SchemaFormat<'a> {
    #[serde(borrow)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(super) schema: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct ChatRequestMessage<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) refusal: Option<Arc<str>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) function_call: Option<RequestFunctionCall<'a>>,
    pub(super) tool_call_id: Option<Arc<str>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct RequestToolCall<'a> {
    pub(super) id: Option<Arc<str>>,
    #[serde(borrow)]
    pub(super) function: Option<RequestFunctionCall<'a>>,
    #[serde(borrow)]
    pub(super) custom: Option<RequestCustomCall<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct RequestFunctionCall<'a> {
    pub(super) name: Arc<str>,
    #[serde(borrow)]
    pub(super) arguments: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct RequestCustomCall<'a> {
    pub(super) name: Arc<str>,
    #[serde(borrow)]
    pub(super) input: Option<Cow<'a, str>>,
}

/// An answer that is not streamed.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct ChatCompletion<'a> {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) created: i64,
    pub(super) model: &'a str,
    pub(super) choices: [ChatChoice<'a>; 1],
    pub(super) usage: ChatUsage,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChatChoice<'a> {
    pub(super) index: u32,
    pub(super) message: ChatMessage<'a>,
    pub(super) logprobs: Option<()>,
    pub(super) finish_reason: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChatMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: Option<String>,
    pub(super) refusal: Option<()>,
    /// Not part of OpenAI's API; the name that other servers of this dialect use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ChatToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<ChatFunction<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChatToolCall<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: ChatFunction<'a>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct ChatFunction<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// The content that a chunk adds.
#[derive(Debug, Default, Serialize)]
pub(super) struct ChatDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[ToolCallDelta<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolCallDelta<'a> {
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    pub(super) function: FunctionDelta<'a>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatPromptDetails")]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatCompletionDetails")]
struct CompletionDetails {
    reasoning_tokens: u64,
}

/// The prompt includes cached tokens, which are also reported separately.
impl From<&Usage> for ChatUsage {
    fn from(usage: &Usage) -> Self {
        let prompt = super::super::prompt_tokens(usage);
        Self {
            prompt_tokens: prompt,
            completion_tokens: usage.output_tokens,
            total_tokens: prompt.saturating_add(usage.output_tokens),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cache_read_tokens },
            // Agents do not count reasoning tokens separately.
            completion_tokens_details: CompletionDetails { reasoning_tokens: 0 },
        }
    }
}
