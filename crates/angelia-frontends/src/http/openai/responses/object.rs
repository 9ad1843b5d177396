//! Encodes a response as one object: at the end of a stream, without streaming, and from the
//! record.

use angelia_core::model::ToolId;
use serde_json::{Map, Value, value::RawValue};

use super::{
    super::super::dialect::{AnswerBlock, AnswerEnd, AnswerHeader, CompleteAnswer, StopReason},
    ResponseId,
    errors::ResponseError,
    tool_names::{CallFormat, ToolNames, custom_input_text},
    wire::{
        IncompleteDetails, RequestEcho, ResponseItem, ResponseObject, ResponseUsage, SummaryPart,
        TextPart,
    },
};

/// Encodes the answer to a request without streaming.
pub(super) fn encode_complete(echo: &RequestEcho, answer: &CompleteAnswer) -> Vec<u8> {
    let output = items(&echo.tool_names, answer);
    let ending = ResponseStatus::of_live_answer(&answer.end, !output.is_empty());
    ended(echo, &answer.header, &answer.end, ending, &output)
}

/// Encodes an answer from the record. Does not echo the request.
pub fn encode_recorded(answer: &CompleteAnswer) -> Vec<u8> {
    let ending = ResponseStatus::of_recorded_answer(&answer.end);
    let echo = RequestEcho::default();
    let output = items(&echo.tool_names, answer);
    ended(&echo, &answer.header, &answer.end, ending, &output)
}

/// Encodes an unfinished answer: `queued`, `in_progress`, or `cancelled` before it began.
pub fn encode_unfinished(header: &AnswerHeader, status: &'static str) -> Vec<u8> {
    let echo = RequestEcho::default();
    let response =
        response(&echo, header, ResponseStatus::with_status(status), &[], &echo.metadata);
    json(&response)
}

fn ended(
    echo: &RequestEcho,
    header: &AnswerHeader,
    end: &AnswerEnd,
    ending: ResponseStatus,
    output: &[ResponseItem],
) -> Vec<u8> {
    let metadata = metadata(echo, end);
    let mut response = response(echo, header, ending, output, &metadata);
    response.usage = Some(ResponseUsage::from(&end.usage));
    json(&response)
}

fn json(response: &ResponseObject<'_>) -> Vec<u8> {
    // Writing to memory cannot fail.
    serde_json::to_vec(response).unwrap_or_default()
}

/// The status of a response in the terms of Responses.
#[derive(Debug)]
pub(super) struct ResponseStatus {
    pub(super) status: &'static str,
    error: Option<ResponseError>,
    incomplete_reason: Option<&'static str>,
}

impl ResponseStatus {
    pub(super) const fn with_status(status: &'static str) -> Self {
        Self { status, error: None, incomplete_reason: None }
    }

    /// Returns the status of an answer that was just produced. Clients retry a response that failed
    /// or ended incomplete, so the work would be done twice. Therefore an answer with any output is
    /// `completed`, and its metadata reports the rest.
    pub(super) fn of_live_answer(end: &AnswerEnd, has_output: bool) -> Self {
        match &end.stop {
            StopReason::Failed(failure) if !has_output => {
                Self { error: Some(failure.into()), ..Self::with_status("failed") }
            }
            stop => Self { incomplete_reason: incomplete(stop), ..Self::with_status("completed") },
        }
    }

    /// Returns the status of an answer from the record. Clients do not retry an answer that they
    /// look up, so failures are reported as such.
    fn of_recorded_answer(end: &AnswerEnd) -> Self {
        match &end.stop {
            StopReason::Failed(failure) => {
                Self { error: Some(failure.into()), ..Self::with_status("failed") }
            }
            StopReason::Interrupted => Self::with_status("cancelled"),
            stop => Self { incomplete_reason: incomplete(stop), ..Self::with_status("completed") },
        }
    }
}

const fn incomplete(stop: &StopReason) -> Option<&'static str> {
    match stop {
        StopReason::MaxTokens => Some("max_output_tokens"),
        StopReason::Refusal => Some("content_filter"),
        StopReason::EndTurn
        | StopReason::Calls
        | StopReason::Partial
        | StopReason::Word(_)
        | StopReason::Failed(_)
        | StopReason::Interrupted => None,
    }
}

/// Returns the caller's metadata, plus the turn's status if the response status does not express
/// it.
pub(super) fn metadata(echo: &RequestEcho, end: &AnswerEnd) -> Map<String, Value> {
    let mut metadata = echo.metadata.clone();
    if matches!(end.status, "partial" | "interrupted" | "failed") {
        metadata.insert("angelia_status".to_owned(), end.status.into());
    }
    metadata
}

pub(super) fn response<'a>(
    echo: &'a RequestEcho,
    header: &'a AnswerHeader,
    ending: ResponseStatus,
    output: &'a [ResponseItem],
    metadata: &'a Map<String, Value>,
) -> ResponseObject<'a> {
    ResponseObject {
        id: ResponseId::from_header(header).to_string(),
        object: "response",
        created_at: header.at.as_second(),
        status: ending.status,
        background: false,
        error: ending.error,
        incomplete_details: ending.incomplete_reason.map(|reason| IncompleteDetails { reason }),
        instructions: echo.instructions.as_deref(),
        max_output_tokens: echo.max_output_tokens,
        max_tool_calls: None,
        model: &header.model,
        output,
        parallel_tool_calls: echo.parallel_tool_calls.unwrap_or(true),
        previous_response_id: echo.previous_response_id.as_deref(),
        prompt_cache_key: echo.prompt_cache_key.as_deref(),
        reasoning: or_default(echo.reasoning.as_deref(), r#"{"effort":null,"summary":null}"#),
        service_tier: "default",
        store: echo.store.unwrap_or(true),
        temperature: or_default(echo.temperature.as_deref(), "1.0"),
        text: or_default(echo.text.as_deref(), r#"{"format":{"type":"text"}}"#),
        tool_choice: or_default(echo.tool_choice.as_deref(), r#""auto""#),
        tools: &echo.tools,
        top_logprobs: 0,
        top_p: or_default(echo.top_p.as_deref(), "1.0"),
        truncation: or_default(echo.truncation.as_deref(), r#""disabled""#),
        usage: None,
        user: echo.user.as_deref(),
        metadata,
    }
}

/// Returns the requested value, or the default.
fn or_default<'a>(asked: Option<&'a RawValue>, usual: &'static str) -> &'a RawValue {
    asked.unwrap_or_else(|| serde_json::from_str(usual).unwrap_or(RawValue::NULL))
}

fn items(names: &ToolNames, answer: &CompleteAnswer) -> Vec<ResponseItem> {
    let id = ResponseId::from_header(&answer.header);
    let blocks = (0..).zip(&answer.blocks);
    let item = |(index, block)| item(names, id, index, block);
    blocks.map(item).collect()
}

fn item(names: &ToolNames, id: ResponseId, index: u32, block: &AnswerBlock) -> ResponseItem {
    match block {
        AnswerBlock::Text(text) => message(id, index, "completed", vec![TextPart::new(&**text)]),
        AnswerBlock::Reasoning(text) => {
            let text = text.to_string();
            reasoning(id, index, vec![SummaryPart { text }])
        }
        AnswerBlock::Call { id: call, name, input } => {
            call_item(names.call_format(name), id, index, call, "completed", input.get())
        }
    }
}

/// Encodes a tool call in the format of its tool. `arguments` is empty while the call is in
/// progress.
pub(super) fn call_item(
    spelled: CallFormat,
    id: ResponseId,
    index: u32,
    call: &ToolId,
    status: &'static str,
    arguments: &str,
) -> ResponseItem {
    let call_id = call.to_string();
    match spelled {
        CallFormat::Function { namespace, name } => ResponseItem::FunctionCall {
            id: id.item("fc", index),
            status,
            call_id,
            namespace,
            name,
            arguments: arguments.to_owned(),
        },
        CallFormat::Custom { name } => ResponseItem::CustomToolCall {
            id: id.item("ctc", index),
            status,
            call_id,
            name,
            input: custom_input_text(arguments),
        },
    }
}

pub(super) fn message(
    id: ResponseId,
    index: u32,
    status: &'static str,
    content: Vec<TextPart>,
) -> ResponseItem {
    ResponseItem::Message { id: id.item("msg", index), status, role: "assistant", content }
}

pub(super) fn reasoning(id: ResponseId, index: u32, summary: Vec<SummaryPart>) -> ResponseItem {
    ResponseItem::Reasoning { id: id.item("rs", index), summary, encrypted_content: None }
}
