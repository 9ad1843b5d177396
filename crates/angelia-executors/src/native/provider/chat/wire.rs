//! The JSON types of the Chat Completions API, limited to what we use.

use angelia_core::model::ToolChoice;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::{
    ProviderRequest,
    messages::CacheMark,
    request::{SchemaText, input_schema},
};
use crate::lenient::{BorrowedStr, Lenient};

/// The body of a request. The fields are serialised in this order, so the messages come last.
#[derive(Serialize)]
pub(super) struct ChatBody<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<ChatTool<ToolFunction<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ChoiceWord<ChatTool<ChoiceName<'a>>>>,
    /// Only the system prompt; the messages are encoded separately and appended to it.
    pub(super) messages: Vec<ChatMessage<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'a> {
    JsonSchema { json_schema: NamedSchema<'a> },
}

#[derive(Serialize)]
pub(super) struct NamedSchema<'a> {
    pub(super) name: &'static str,
    pub(super) schema: &'a RawValue,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ChatTool<F> {
    pub(super) function: F,
}

/// The choice of a tool: a word, or the tool.
#[derive(Serialize)]
#[serde(untagged)]
pub(in super::super) enum ChoiceWord<T> {
    Word(&'static str),
    Tool(T),
}

#[derive(Serialize)]
pub(in super::super) struct ChoiceName<'a> {
    name: &'a str,
}

/// Returns the tool choice of a request, for the Chat Completions and Responses APIs, which differ
/// only in how they write a tool. `None` lets the model choose, which is the default of every
/// server.
pub(in super::super) fn tool_choice<'a, T>(
    request: &ProviderRequest<'a>,
    tool: impl FnOnce(ChoiceName<'a>) -> T,
) -> Option<ChoiceWord<T>> {
    if request.tools.is_empty() {
        return None;
    }
    match &request.settings.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(ChoiceWord::Word("none")),
        ToolChoice::Required => Some(ChoiceWord::Word("required")),
        ToolChoice::Named(name) => Some(ChoiceWord::Tool(tool(ChoiceName { name }))),
    }
}

/// The description of a tool, which is the same in the Chat Completions and Responses APIs.
#[derive(Serialize)]
pub(in super::super) struct ToolFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: SchemaText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> ToolFunction<'a> {
    /// Describes the tools of a request.
    pub(in super::super) fn of_request(
        request: &ProviderRequest<'a>,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let plain = request.settings.plain_schemas;
        let strict = request.quirks.strict.then_some(false);
        request.tools.iter().map(move |tool| Self {
            name: &tool.name,
            description: &tool.description,
            parameters: input_schema(tool, plain),
            strict,
        })
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum ChatMessage<'a> {
    System {
        content: ChatContent<'a>,
    },
    Developer {
        content: ChatContent<'a>,
    },
    User {
        content: ChatContent<'a>,
    },
    Assistant {
        content: Option<ChatContent<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<RequestCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        content: ChatContent<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChatContent<'a> {
    Text(String),
    Parts(Vec<ChatPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatPart<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheMark>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct RequestCall<'a> {
    pub(super) id: &'a str,
    pub(super) function: RequestFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
pub(super) struct RequestFunction<'a> {
    pub(super) name: &'a str,
    /// JSON in a string.
    pub(super) arguments: &'a str,
}

/// A chunk of an answer, or a complete answer: the two differ only in the name of one field.
#[derive(Deserialize)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Lenient<Vec<ChatChoice<'a>>>,
    #[serde(default)]
    pub(super) usage: Lenient<ChatUsage>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct ChatChoice<'a> {
    #[serde(borrow, default)]
    pub(super) delta: Lenient<ChatDelta<'a>>,
    /// Takes the place of `delta` in an answer that is not streamed.
    #[serde(borrow, default)]
    pub(super) message: Lenient<ChatDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ChatDelta<'a> {
    /// A string, or a list of parts.
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Lenient<Vec<CallPiece<'a>>>,
}

/// A part of content that is a list.
#[derive(Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, default)]
    pub(super) text: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallPiece<'a> {
    #[serde(default)]
    pub(super) index: Lenient<i64>,
    /// A string, or a number.
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) function: Lenient<PieceFunction<'a>>,
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct PieceFunction<'a> {
    #[serde(borrow, default)]
    pub(super) name: Lenient<BorrowedStr<'a>>,
    /// A string, or the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct ChatUsage {
    #[serde(default)]
    pub(super) prompt_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Lenient<CachedTokens>,
    /// The cached part, under another name.
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Lenient<u64>,
}

/// The cached part of the input, for the two APIs that include it in their input count.
#[derive(Clone, Copy, Deserialize)]
pub(in super::super) struct CachedTokens {
    #[serde(default)]
    pub(in super::super) cached_tokens: Lenient<u64>,
    #[serde(default)]
    pub(in super::super) cache_write_tokens: Lenient<u64>,
}
