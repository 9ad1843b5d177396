//! Decodes a Responses body into a [`ModelRequest`]. Total: any body becomes a `ModelRequest` or is
//! refused with a reason.

use std::sync::Arc;

use angelia_core::model::{Content, RawJson, TurnId};
use serde_json::value::RawValue;

use super::{
    super::{
        super::dialect::{AnswerBlock, InvalidRequest, ModelRequest, OutputFormat, json},
        conversation::ConversationBuilder,
        schema, tools,
    },
    ItemId, ResponseId, ResponsesDialect, items,
    tool_names::ToolNames,
    wire::{RequestEcho, ResponsesRequest, TextOptions},
};

/// Returns the items of earlier answers that the request refers to by id. They must be looked up
/// before the request can be decoded.
pub fn references(body: &[u8]) -> Result<Vec<ItemId>, InvalidRequest> {
    let request: ResponsesRequest<'_> = json::parse_body(body)?;
    match request.input {
        Some(input) if input.get().starts_with('[') => {
            items::references(&json::parse_part::<Vec<&RawValue>>(input, "input")?)
        }
        _ => Ok(Vec::new()),
    }
}

/// Decodes a request. `known` returns the items listed by [`references`].
pub fn decode(
    body: &[u8],
    known: impl Fn(ItemId) -> Option<AnswerBlock>,
) -> Result<(ModelRequest, ResponsesDialect), InvalidRequest> {
    let request: ResponsesRequest<'_> = json::parse_body(body)?;
    check_supported(&request)?;
    let previous = previous(&request)?;

    let mut conversation = match previous {
        Some(_) => ConversationBuilder::continued(),
        None => ConversationBuilder::default(),
    };
    if let Some(instructions) = &request.instructions {
        conversation.push_system(Arc::clone(instructions));
    }
    match request.input {
        Some(input) if input.get().starts_with('"') => {
            let text: Arc<str> = json::parse_part(input, "input")?;
            if !text.is_empty() {
                conversation.user(vec![Content::Text(text)]);
            }
        }
        Some(input) => {
            let list: Vec<&RawValue> = json::parse_part(input, "input")?;
            items::decode_items(&list, &mut conversation, &known)?;
        }
        None => {}
    }
    let (system, messages) = conversation.finish("input")?;
    let (mut tools, names) = ToolNames::decode_tools(request.tools.as_deref().unwrap_or_default())?;
    let tool_choice = tools::choice(request.tool_choice, &mut tools, "tool_choice")?;
    let model_request = ModelRequest {
        model: Arc::clone(&request.model),
        system,
        messages,
        tools,
        tool_choice,
        output_format: output(request.text)?,
        max_tokens: request.max_output_tokens,
        stop_words: Vec::new(),
        stream: request.stream.unwrap_or(false),
        previous_turn: previous,
        is_utility: false,
    };
    let responses = ResponsesDialect { echo: echo(request, names) };
    Ok((model_request, responses))
}

/// Refuses options that would change the meaning of the answer, because they must not be ignored
/// silently.
fn check_supported(request: &ResponsesRequest<'_>) -> Result<(), InvalidRequest> {
    let refused = |field: &str, why: &str| Err(InvalidRequest::in_field(field, why));
    if request.background == Some(true) {
        return refused("background", "answers are not produced in the background; use `stream`");
    }
    if request.conversation.is_some() {
        let why = "there are no stored conversations; continue with `previous_response_id`";
        return refused("conversation", why);
    }
    if request.prompt.is_some() {
        return refused("prompt", "there are no stored prompts; send the text itself");
    }
    if request.top_logprobs.is_some_and(|count| count > 0) {
        return refused("top_logprobs", "agents do not report them");
    }
    Ok(())
}

fn previous(request: &ResponsesRequest<'_>) -> Result<Option<TurnId>, InvalidRequest> {
    let Some(id) = &request.previous_response_id else {
        return Ok(None);
    };
    match id.parse::<ResponseId>() {
        Ok(id) => Ok(Some(id.turn)),
        Err(error) => Err(InvalidRequest::in_field("previous_response_id", error)),
    }
}

fn output(text: Option<&RawValue>) -> Result<OutputFormat, InvalidRequest> {
    let Some(text) = text else {
        return Ok(OutputFormat::Text);
    };
    let options: TextOptions<'_> = json::parse_part(text, "text")?;
    match options.format {
        Some(format) => schema::output(&format.kind, format.schema, "text.format", "schema"),
        None => Ok(OutputFormat::Text),
    }
}

fn echo(request: ResponsesRequest<'_>, names: ToolNames) -> RequestEcho {
    let raw = |raw: Option<&RawValue>| raw.map(|raw| RawJson::from(raw.to_owned()));
    let tools = request.tools.unwrap_or_default();
    RequestEcho {
        tool_names: names,
        instructions: request.instructions,
        previous_response_id: request.previous_response_id,
        tools: tools.into_iter().map(|tool| tool.to_owned().into()).collect(),
        tool_choice: raw(request.tool_choice),
        parallel_tool_calls: request.parallel_tool_calls,
        text: raw(request.text),
        reasoning: raw(request.reasoning),
        max_output_tokens: request.max_output_tokens,
        store: request.store,
        metadata: request.metadata.unwrap_or_default(),
        temperature: raw(request.temperature),
        top_p: raw(request.top_p),
        truncation: raw(request.truncation),
        user: raw(request.user),
        prompt_cache_key: raw(request.prompt_cache_key),
    }
}
