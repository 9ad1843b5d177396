//! The shapes of Chat Completions: requests as far as they are read, answers as they are written.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::Usage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Fields that are not here are accepted and change nothing.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Request<'a> {
    pub(super) model: Arc<str>,
    #[serde(borrow)]
    pub(super) messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) tool_choice: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) functions: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_completion_tokens: Option<u64>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) n: Option<u64>,
    pub(super) logprobs: Option<bool>,
    #[serde(borrow)]
    pub(super) modalities: Option<Vec<Cow<'a, str>>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct ResponseFormat<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) json_schema: Option<JsonSchema<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct JsonSchema<'a> {
    #[serde(borrow)]
    pub(super) schema: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct RequestMessage<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) refusal: Option<Arc<str>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) function_call: Option<CalledFunction<'a>>,
    pub(super) tool_call_id: Option<Arc<str>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct CalledTool<'a> {
    pub(super) id: Option<Arc<str>>,
    #[serde(borrow)]
    pub(super) function: Option<CalledFunction<'a>>,
    #[serde(borrow)]
    pub(super) custom: Option<CalledCustom<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct CalledFunction<'a> {
    pub(super) name: Arc<str>,
    #[serde(borrow)]
    pub(super) arguments: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct CalledCustom<'a> {
    pub(super) name: Arc<str>,
    #[serde(borrow)]
    pub(super) input: Option<Cow<'a, str>>,
}

/// An answer that is not streamed.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) created: i64,
    pub(super) model: &'a str,
    pub(super) choices: [Choice<'a>; 1],
    pub(super) usage: UsageJson,
}

#[derive(Debug, Serialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u32,
    pub(super) message: AnswerMessage<'a>,
    pub(super) logprobs: Option<()>,
    pub(super) finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct AnswerMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: Option<String>,
    pub(super) refusal: Option<()>,
    /// Not OpenAI's; what others who serve this dialect call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<Function<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolCall<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// What a chunk adds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Delta<'a> {
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

#[derive(Debug, Serialize)]
pub(super) struct UsageJson {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

/// Here the prompt is all of it; what came from the cache is a part.
impl From<&Usage> for UsageJson {
    fn from(usage: &Usage) -> Self {
        let prompt = super::super::prompt_tokens(usage);
        Self {
            prompt_tokens: prompt,
            completion_tokens: usage.output_tokens,
            total_tokens: prompt.saturating_add(usage.output_tokens),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cache_read_tokens,
            },
            // Agents do not count it apart.
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: 0,
            },
        }
    }
}
