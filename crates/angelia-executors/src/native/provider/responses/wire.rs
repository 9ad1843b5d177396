//! The JSON types of the Responses API, limited to what we use.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::chat::{CachedTokens, ChoiceName, ChoiceWord, ToolFunction};
use crate::lenient::{BorrowedStr, Lenient};

/// The body of a request. The fields are serialised in this order, so the items come last.
#[derive(Serialize)]
pub(super) struct ResponsesBody<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<ReasoningRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<TextSettings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<ResponsesTool<ToolFunction<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ChoiceWord<ResponsesTool<ChoiceName<'a>>>>,
    /// The items are encoded separately and inserted here.
    pub(super) input: [InputItem<'a>; 0],
}

#[derive(Serialize)]
pub(super) struct TextSettings<'a> {
    pub(super) format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum TextFormat<'a> {
    JsonSchema { name: &'static str, schema: &'a RawValue },
}

#[derive(Serialize)]
pub(super) struct ReasoningRequest {
    pub(super) effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ResponsesTool<F> {
    #[serde(flatten)]
    pub(super) function: F,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum InputItem<'a> {
    Message { role: &'static str, content: Vec<InputPart<'a>> },
    Reasoning { summary: &'a RawValue, encrypted_content: &'a str },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: CallOutput<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum InputPart<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
    InputImage { image_url: String },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum CallOutput<'a> {
    Text(&'a str),
    Parts(Vec<InputPart<'a>>),
}

/// Any frame of an answer.
#[derive(Deserialize)]
pub(super) struct ResponsesFrame<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) response: Lenient<ResponseObject<'a>>,
    /// Some servers send neither `output_index` nor `item_id`.
    #[serde(default)]
    pub(super) output_index: Lenient<u64>,
    #[serde(borrow, default)]
    pub(super) item_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) item: Lenient<OutputItem<'a>>,
    #[serde(borrow, default)]
    pub(super) delta: Lenient<BorrowedStr<'a>>,
    #[serde(default)]
    pub(super) summary_index: Lenient<u64>,
}

/// The complete answer, or only its head while it is being written.
#[derive(Deserialize)]
pub(super) struct ResponseObject<'a> {
    #[serde(borrow, default)]
    pub(super) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) status: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) output: Lenient<Vec<OutputItem<'a>>>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Lenient<IncompleteDetails<'a>>,
    #[serde(default)]
    pub(super) usage: Lenient<ResponsesUsage>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
pub(super) struct OutputItem<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) call_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Lenient<BorrowedStr<'a>>,
    /// A string, or the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Lenient<Vec<ItemText<'a>>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Lenient<BorrowedStr<'a>>,
}

/// A text of an item of any kind.
#[derive(Deserialize)]
pub(super) struct ItemText<'a> {
    #[serde(borrow, default)]
    pub(super) text: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Lenient<BorrowedStr<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct ResponsesUsage {
    #[serde(default)]
    pub(super) input_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) output_tokens: Lenient<u64>,
    #[serde(default)]
    pub(super) input_tokens_details: Lenient<CachedTokens>,
}
