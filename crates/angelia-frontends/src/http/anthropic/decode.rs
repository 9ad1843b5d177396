//! Decodes a request of the Messages API into a [`ModelRequest`] and the encoding of its answer.

use std::{collections::HashSet, sync::Arc};

use angelia_core::model::{HistoryMessage, MessagePart, RawJson, Role, ToolId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::{
        ErrorKind, HttpError,
        dialect::{
            InvalidRequest, ModelRequest, OutputFormat, check_stop_words, content::is_blank, json,
        },
    },
    MessagesDialect, blocks,
    errors::THREAD_NOT_FOUND,
    tools,
    wire::{MessagesRequest, MessagesRequestMessage},
};

/// The prefix of a system text that is addressed to the vendor's servers, not to the model.
const ATTRIBUTION_PREFIX: &str = "x-anthropic-billing-header:";

/// The beginning of Claude Code's prompt for a session title.
const TITLE_PROMPT: &str = "Generate a concise, sentence-case title";

pub fn decode(body: &[u8]) -> Result<(ModelRequest, MessagesDialect), HttpError> {
    let request: MessagesRequest<'_> = json::parse_body(body)?;
    let thread = request.thread.as_ref();
    if thread.is_some_and(|thread| thread.kind == "continue") {
        let message =
            "no conversation is kept under this `previous_message_id`; send all of it again";
        return Err(HttpError::new(ErrorKind::NotFound, message).with_code(THREAD_NOT_FOUND));
    }
    let (mut model_request, dialect) = decode_request(request)?;
    check_answerable(&model_request.messages)?;
    model_request.is_utility = is_utility(&model_request);
    Ok((model_request, dialect))
}

/// Decodes a request without checking whether there is anything to answer.
pub(super) fn decode_request(
    request: MessagesRequest<'_>,
) -> Result<(ModelRequest, MessagesDialect), InvalidRequest> {
    let model = request.model.filter(|model| !model.is_empty());
    let model =
        model.ok_or_else(|| InvalidRequest::in_field("model", "this must be the id of a model"))?;
    if request.max_tokens == Some(0) {
        return Err(InvalidRequest::in_field("max_tokens", "this must be at least 1"));
    }
    if request.compaction.is_some() {
        return Err(InvalidRequest::in_field(
            "compaction",
            "conversations are not compacted here; leave it out",
        ));
    }
    let offered = tools::decode_tools(&request.tools.unwrap_or_default())?;
    let tool_choice = tools::choice(request.tool_choice, &offered)?;
    let format = request.output_config.and_then(|config| config.format);
    let output = match (format, request.output_format) {
        (Some(format), _) => output(format, "output_config.format")?,
        (None, Some(format)) => output(format, "output_format")?,
        (None, None) => OutputFormat::Text,
    };
    let model_request = ModelRequest {
        model,
        system: system(request.system)?,
        messages: messages(&request.messages.unwrap_or_default())?,
        tools: offered,
        tool_choice,
        output_format: output,
        max_tokens: request.max_tokens,
        stop_words: check_stop_words(request.stop_sequences.unwrap_or_default(), "stop_sequences")?,
        stream: request.stream.unwrap_or(false),
        previous_turn: None,
        is_utility: false,
    };
    let dialect = MessagesDialect { thinking: request.thinking.is_some_and(wants_thinking) };
    Ok((model_request, dialect))
}

fn system(raw: Option<&RawValue>) -> Result<Option<Arc<str>>, InvalidRequest> {
    let mut texts = blocks::texts(raw, "system")?;
    texts.retain(|text| !text.starts_with(ATTRIBUTION_PREFIX) && !text.trim().is_empty());
    Ok(match texts.as_slice() {
        [] => None,
        [one] => Some(Arc::clone(one)),
        several => Some(several.join("\n\n").into()),
    })
}

fn messages(all: &[MessagesRequestMessage<'_>]) -> Result<Vec<HistoryMessage>, InvalidRequest> {
    let mut messages = Vec::with_capacity(all.len());
    for (index, message) in all.iter().enumerate() {
        let place = format!("messages.{index}.content");
        let (role, parts) = match &*message.role {
            "user" => (Role::User, blocks::parts(Role::User, message.content, &place)?),
            "assistant" => {
                let parts = blocks::parts(Role::Assistant, message.content, &place)?;
                (Role::Assistant, parts)
            }
            "system" | "developer" => (Role::User, blocks::system_parts(message.content, &place)?),
            other => {
                let why = format!("`{other}` is not known; use user, assistant or system");
                return Err(InvalidRequest::in_field(format!("messages.{index}.role"), why));
            }
        };
        if !parts.is_empty() {
            messages.push(HistoryMessage { role, parts });
        }
    }
    check_results_have_calls(&messages)?;
    Ok(messages)
}

/// Refuses a tool result without its call. A request without assistant messages may continue a
/// session that knows the call.
fn check_results_have_calls(messages: &[HistoryMessage]) -> Result<(), InvalidRequest> {
    if !messages.iter().any(|message| message.role == Role::Assistant) {
        return Ok(());
    }
    let mut calls: HashSet<&ToolId> = HashSet::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match part {
            MessagePart::ToolUse { id, .. } => {
                calls.insert(id);
            }
            MessagePart::ToolResult { id, .. } if !calls.contains(id) => {
                let why = format!("no `tool_use` before the `tool_result` has the id {id}");
                return Err(InvalidRequest::in_field("messages", why));
            }
            MessagePart::ToolResult { .. }
            | MessagePart::Content(_)
            | MessagePart::Thinking { .. } => {}
        }
    }
    Ok(())
}

/// Refuses a request with nothing to answer. A caller that sends our own answer as the last message
/// wants it continued, as after `pause_turn`.
fn check_answerable(messages: &[HistoryMessage]) -> Result<(), InvalidRequest> {
    match messages.last() {
        Some(last) if last.role == Role::Assistant => Ok(()),
        Some(last) if last.parts.iter().any(is_answerable) => Ok(()),
        _ => Err(InvalidRequest::in_field("messages", "there must be something to answer")),
    }
}

fn is_answerable(part: &MessagePart) -> bool {
    match part {
        MessagePart::Content(content) => !is_blank(content),
        MessagePart::ToolResult { .. } => true,
        MessagePart::Thinking { .. } | MessagePart::ToolUse { .. } => false,
    }
}

fn output(raw: &RawValue, place: &str) -> Result<OutputFormat, InvalidRequest> {
    #[derive(Deserialize)]
    struct Format {
        #[serde(rename = "type")]
        kind: String,
        schema: Option<Box<RawValue>>,
    }
    if !json::is_object(raw) {
        return Err(InvalidRequest::in_field(place, "this must be an object"));
    }
    let format: Format = json::parse_part(raw, place)?;
    if format.kind != "json_schema" {
        let why = format!("`{}` is not known; use json_schema", format.kind);
        return Err(InvalidRequest::in_field(format!("{place}.type"), why));
    }
    let schema = format.schema.filter(|schema| json::is_object(schema));
    let schema = schema.ok_or_else(|| {
        InvalidRequest::in_field(format!("{place}.schema"), "this must be a JSON schema")
    })?;
    Ok(OutputFormat::Schema(RawJson::from(schema)))
}

fn wants_thinking(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Thinking {
        #[serde(rename = "type")]
        kind: String,
        display: Option<String>,
    }
    let wanted = serde_json::from_str::<Thinking>(raw.get());
    wanted.is_ok_and(|wanted| {
        wanted.kind != "disabled" && wanted.display.as_deref() != Some("omitted")
    })
}

/// Recognises requests that Claude Code makes for its own user interface: the title of a session,
/// and a probe for the remaining quota.
fn is_utility(model_request: &ModelRequest) -> bool {
    let probes = model_request.max_tokens == Some(1) && model_request.messages.len() == 1;
    let titles = || {
        let system = model_request.system.as_deref();
        system.is_some_and(|system| system.contains(TITLE_PROMPT))
    };
    model_request.tools.is_empty() && (probes || titles())
}
