//! Decodes a Chat Completions body into a [`ModelRequest`]. Total: any body becomes a
//! `ModelRequest` or is refused with a reason.

use std::sync::Arc;

use angelia_core::model::{
    CallerTool, Content, HistoryMessage, MessagePart, Role, ToolChoice, ToolId,
};
use serde_json::value::RawValue;

use super::{
    super::{
        super::dialect::{InvalidRequest, ModelRequest, OutputFormat, check_stop_words, json},
        contents::contents,
        conversation::{ConversationBuilder, parse_arguments, wrap_in_object},
        schema, tools,
    },
    ChatDialect,
    wire::{ChatRequest, ChatRequestMessage, RequestFunctionCall, RequestToolCall, ResponseFormat},
};

pub fn decode(body: &[u8]) -> Result<(ModelRequest, ChatDialect), InvalidRequest> {
    let request: ChatRequest<'_> = json::parse_body(body)?;
    check_supported(&request)?;

    let mut conversation = ConversationBuilder::default();
    let mut legacy_calls = LegacyCalls::default();
    for (index, raw) in request.messages.iter().enumerate() {
        let place = format!("messages.{index}");
        message(raw, &place, &mut conversation, &mut legacy_calls)?;
    }
    let (system, messages) = conversation.finish("messages")?;
    let (tools, tool_choice, legacy) = decode_tools(&request)?;
    let stream = request.stream.unwrap_or(false);
    let include_usage = request.stream_options.and_then(|options| options.include_usage);
    let model_request = ModelRequest {
        model: request.model,
        is_utility: !stream && tools.is_empty() && is_utility(&messages),
        system,
        messages,
        tools,
        tool_choice,
        output_format: output(request.response_format)?,
        max_tokens: request.max_completion_tokens.or(request.max_tokens),
        stop_words: stop(request.stop)?,
        stream,
        previous_turn: None,
    };
    let chat = ChatDialect { include_usage: include_usage.unwrap_or(false), legacy };
    Ok((model_request, chat))
}

/// Refuses options that would change the meaning of the answer, because they must not be ignored
/// silently.
fn check_supported(request: &ChatRequest<'_>) -> Result<(), InvalidRequest> {
    let refused = |field: &str, why: &str| Err(InvalidRequest::in_field(field, why));
    if request.n.is_some_and(|n| n > 1) {
        return refused("n", "an agent gives one answer; ask again for another one");
    }
    if request.logprobs == Some(true) {
        return refused("logprobs", "agents do not report them");
    }
    let mut modalities = request.modalities.iter().flatten();
    if modalities.any(|modality| modality != "text") {
        return refused("modalities", "an agent answers in text only");
    }
    Ok(())
}

fn message(
    raw: &RawValue,
    place: &str,
    conversation: &mut ConversationBuilder,
    legacy: &mut LegacyCalls,
) -> Result<(), InvalidRequest> {
    let message: ChatRequestMessage<'_> = json::parse_part(raw, place)?;
    let content = contents(message.content, &format!("{place}.content"))?;
    match &*message.role {
        "system" | "developer" => conversation.system(content),
        "user" => conversation.user(content),
        "assistant" => {
            let mut parts: Vec<MessagePart> =
                content.into_iter().map(MessagePart::Content).collect();
            let refusal = message.refusal.filter(|refusal| !refusal.is_empty());
            parts.extend(refusal.map(|refusal| MessagePart::Content(Content::Text(refusal))));
            for (index, raw) in message.tool_calls.iter().flatten().enumerate() {
                let place = format!("{place}.tool_calls.{index}");
                parts.push(call(json::parse_part(raw, &place)?, &place)?);
            }
            if let Some(function) = message.function_call {
                parts.push(tool_use_part(legacy.next_id(), function));
            }
            conversation.assistant(parts);
        }
        "tool" => {
            let Some(id) = message.tool_call_id else {
                let why = "a result must name the call that it belongs to";
                return Err(InvalidRequest::in_field(format!("{place}.tool_call_id"), why));
            };
            conversation.result(ToolId::new(id), content);
        }
        "function" => conversation.result(legacy.last_id(), content),
        other => {
            let why = format!("`{other}` is not one of system, developer, user, assistant, tool");
            return Err(InvalidRequest::in_field(format!("{place}.role"), why));
        }
    }
    Ok(())
}

fn call(call: RequestToolCall<'_>, place: &str) -> Result<MessagePart, InvalidRequest> {
    let refused =
        |field: &str, why: &str| InvalidRequest::in_field(format!("{place}.{field}"), why);
    let id = call.id.ok_or_else(|| refused("id", "a call needs an id"))?;
    let id = ToolId::new(id);
    match (call.function, call.custom) {
        (Some(function), _) => Ok(tool_use_part(id, function)),
        (None, Some(custom)) => Ok(MessagePart::ToolUse {
            id,
            name: custom.name,
            input: wrap_in_object("input", custom.input.as_deref().unwrap_or_default()),
        }),
        (None, None) => Err(refused("function", "a call needs a function")),
    }
}

fn tool_use_part(id: ToolId, function: RequestFunctionCall<'_>) -> MessagePart {
    MessagePart::ToolUse {
        id,
        name: function.name,
        input: parse_arguments(function.arguments.as_deref().unwrap_or_default()),
    }
}

/// Assigns ids to legacy calls, which have none. Each result belongs to the last call.
#[derive(Debug, Default)]
struct LegacyCalls(u32);

impl LegacyCalls {
    fn next_id(&mut self) -> ToolId {
        self.0 += 1;
        self.last_id()
    }

    fn last_id(&self) -> ToolId {
        ToolId::new(format!("function_call_{}", self.0))
    }
}

/// Decodes the tools and the tool choice. The flag tells whether the legacy format was used.
fn decode_tools(
    request: &ChatRequest<'_>,
) -> Result<(Vec<CallerTool>, ToolChoice, bool), InvalidRequest> {
    if let Some(raw) = &request.tools {
        let mut tools = tools::functions(raw, "tools")?;
        let choice = tools::choice(request.tool_choice, &mut tools, "tool_choice")?;
        return Ok((tools, choice, false));
    }
    let Some(raw) = &request.functions else {
        let choice = tools::choice(request.tool_choice, &mut Vec::new(), "tool_choice")?;
        return Ok((Vec::new(), choice, false));
    };
    let mut tools = tools::bare_functions(raw, "functions")?;
    let choice = tools::choice(request.function_call, &mut tools, "function_call")?;
    Ok((tools, choice, true))
}

/// Decodes one stop word or several.
fn stop(given: Option<&RawValue>) -> Result<Vec<Arc<str>>, InvalidRequest> {
    let words = match given {
        None => Vec::new(),
        Some(one) if one.get().starts_with('"') => vec![json::parse_part(one, "stop")?],
        Some(several) => json::parse_part(several, "stop")?,
    };
    check_stop_words(words, "stop")
}

fn output(format: Option<ResponseFormat<'_>>) -> Result<OutputFormat, InvalidRequest> {
    let Some(format) = format else {
        return Ok(OutputFormat::Text);
    };
    let given = format.json_schema.and_then(|format| format.schema);
    schema::output(&format.kind, given, "response_format", "json_schema.schema")
}

/// Recognises requests that chat clients make for their own user interface: titles, tags,
/// suggestions.
fn is_utility(messages: &[HistoryMessage]) -> bool {
    let [message] = messages else { return false };
    let [MessagePart::Content(Content::Text(text))] = message.parts.as_slice() else {
        return false;
    };
    message.role == Role::User && text.starts_with("### Task:\n")
}
