//! Encodes a response as one object: at the end of a stream, without streaming, and from the
//! record.

use angelia_core::model::ToolId;
use serde_json::{Map, Value, value::RawValue};

use super::{
    super::super::dialect::{Begin, End, Stop, Whole, WholeBlock},
    ResponseId,
    errors::ResponseError,
    names::{Names, Spelled, unwrapped},
    wire::{Echo, Incomplete, Item, Response, SummaryPart, TextPart, UsageJson},
};

/// Encodes the answer to a request without streaming.
pub(super) fn whole(echo: &Echo, whole: &Whole) -> Vec<u8> {
    let output = items(&echo.names, whole);
    let ending = Ending::shown(&whole.end, !output.is_empty());
    ended(echo, &whole.begin, &whole.end, ending, &output)
}

/// Encodes an answer from the record. The request is not echoed.
pub fn recorded(whole: &Whole) -> Vec<u8> {
    let ending = Ending::recorded(&whole.end);
    let echo = Echo::default();
    let output = items(&echo.names, whole);
    ended(&echo, &whole.begin, &whole.end, ending, &output)
}

/// Encodes an unfinished answer: `queued`, `in_progress`, or `cancelled` before it began.
pub fn unfinished(begin: &Begin, status: &'static str) -> Vec<u8> {
    let echo = Echo::default();
    let response = response(&echo, begin, Ending::not_yet(status), &[], &echo.metadata);
    json(&response)
}

fn ended(echo: &Echo, begin: &Begin, end: &End, ending: Ending, output: &[Item]) -> Vec<u8> {
    let metadata = metadata(echo, end);
    let mut response = response(echo, begin, ending, output, &metadata);
    response.usage = Some(UsageJson::from(&end.usage));
    json(&response)
}

fn json(response: &Response<'_>) -> Vec<u8> {
    // Writing text into memory cannot fail.
    serde_json::to_vec(response).unwrap_or_default()
}

/// The status of a response, as Responses spells it.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) status: &'static str,
    error: Option<ResponseError>,
    incomplete: Option<&'static str>,
}

impl Ending {
    pub(super) const fn not_yet(status: &'static str) -> Self {
        Self { status, error: None, incomplete: None }
    }

    /// Returns the status of an answer that was just produced. Clients that see a response fail or
    /// end incomplete retry it, and the work would be done twice. So an answer with any output is
    /// `completed`, and its metadata reports the rest.
    pub(super) fn shown(end: &End, has_output: bool) -> Self {
        match &end.stop {
            Stop::Failed(failure) if !has_output => {
                Self { error: Some(failure.into()), ..Self::not_yet("failed") }
            }
            stop => Self { incomplete: incomplete(stop), ..Self::not_yet("completed") },
        }
    }

    /// Returns the status of an answer from the record. No client retries an answer it looks up, so
    /// failures are reported as such.
    fn recorded(end: &End) -> Self {
        match &end.stop {
            Stop::Failed(failure) => {
                Self { error: Some(failure.into()), ..Self::not_yet("failed") }
            }
            Stop::Interrupted => Self::not_yet("cancelled"),
            stop => Self { incomplete: incomplete(stop), ..Self::not_yet("completed") },
        }
    }
}

const fn incomplete(stop: &Stop) -> Option<&'static str> {
    match stop {
        Stop::MaxTokens => Some("max_output_tokens"),
        Stop::Refusal => Some("content_filter"),
        Stop::EndTurn
        | Stop::Calls
        | Stop::Partial
        | Stop::Word(_)
        | Stop::Failed(_)
        | Stop::Interrupted => None,
    }
}

/// Returns the caller's metadata, plus the turn's status if the response status does not express
/// it.
pub(super) fn metadata(echo: &Echo, end: &End) -> Map<String, Value> {
    let mut metadata = echo.metadata.clone();
    if matches!(end.status, "partial" | "interrupted" | "failed") {
        metadata.insert("angelia_status".to_owned(), end.status.into());
    }
    metadata
}

pub(super) fn response<'a>(
    echo: &'a Echo,
    begin: &'a Begin,
    ending: Ending,
    output: &'a [Item],
    metadata: &'a Map<String, Value>,
) -> Response<'a> {
    Response {
        id: ResponseId::of(begin).to_string(),
        object: "response",
        created_at: begin.at.as_second(),
        status: ending.status,
        background: false,
        error: ending.error,
        incomplete_details: ending.incomplete.map(|reason| Incomplete { reason }),
        instructions: echo.instructions.as_deref(),
        max_output_tokens: echo.max_output_tokens,
        max_tool_calls: None,
        model: &begin.model,
        output,
        parallel_tool_calls: echo.parallel_tool_calls.unwrap_or(true),
        previous_response_id: echo.previous_response_id.as_deref(),
        prompt_cache_key: echo.prompt_cache_key.as_deref(),
        reasoning: or(echo.reasoning.as_deref(), r#"{"effort":null,"summary":null}"#),
        service_tier: "default",
        store: echo.store.unwrap_or(true),
        temperature: or(echo.temperature.as_deref(), "1.0"),
        text: or(echo.text.as_deref(), r#"{"format":{"type":"text"}}"#),
        tool_choice: or(echo.tool_choice.as_deref(), r#""auto""#),
        tools: &echo.tools,
        top_logprobs: 0,
        top_p: or(echo.top_p.as_deref(), "1.0"),
        truncation: or(echo.truncation.as_deref(), r#""disabled""#),
        usage: None,
        user: echo.user.as_deref(),
        metadata,
    }
}

/// Returns the requested value, or the default.
fn or<'a>(asked: Option<&'a RawValue>, usual: &'static str) -> &'a RawValue {
    asked.unwrap_or_else(|| serde_json::from_str(usual).unwrap_or(RawValue::NULL))
}

fn items(names: &Names, whole: &Whole) -> Vec<Item> {
    let id = ResponseId::of(&whole.begin);
    let blocks = (0..).zip(&whole.blocks);
    let item = |(index, block)| item(names, id, index, block);
    blocks.map(item).collect()
}

fn item(names: &Names, id: ResponseId, index: u32, block: &WholeBlock) -> Item {
    match block {
        WholeBlock::Text(text) => message(id, index, "completed", vec![TextPart::new(&**text)]),
        WholeBlock::Reasoning(text) => {
            let text = text.to_string();
            reasoning(id, index, vec![SummaryPart { text }])
        }
        WholeBlock::Call { id: call, name, input } => {
            call_item(names.of(name), id, index, call, "completed", input.get())
        }
    }
}

/// Encodes a tool call in the format of its tool. `arguments` is empty while the call is in
/// progress.
pub(super) fn call_item(
    spelled: Spelled,
    id: ResponseId,
    index: u32,
    call: &ToolId,
    status: &'static str,
    arguments: &str,
) -> Item {
    let call_id = call.to_string();
    match spelled {
        Spelled::Function { namespace, name } => Item::FunctionCall {
            id: id.item("fc", index),
            status,
            call_id,
            namespace,
            name,
            arguments: arguments.to_owned(),
        },
        Spelled::Custom { name } => Item::CustomToolCall {
            id: id.item("ctc", index),
            status,
            call_id,
            name,
            input: unwrapped(arguments),
        },
    }
}

pub(super) fn message(
    id: ResponseId,
    index: u32,
    status: &'static str,
    content: Vec<TextPart>,
) -> Item {
    Item::Message { id: id.item("msg", index), status, role: "assistant", content }
}

pub(super) fn reasoning(id: ResponseId, index: u32, summary: Vec<SummaryPart>) -> Item {
    Item::Reasoning { id: id.item("rs", index), summary, encrypted_content: None }
}
