//! Decodes the items of a request's input: messages, calls, results, and other items that a client
//! sends back from an answer.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{Content, MessagePart, ToolId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::{
        super::dialect::{AnswerBlock, InvalidRequest, content::unknown_text, json},
        contents::{TypeTag, contents},
        conversation::{ConversationBuilder, parse_arguments, wrap_in_object},
    },
    ItemId,
    tool_names::{CUSTOM_INPUT_FIELD, namespaced_name},
};

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct MessageItem<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct CallItem<'a> {
    call_id: Arc<str>,
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    #[serde(borrow)]
    arguments: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct OutputItem<'a> {
    call_id: Arc<str>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct ReferenceItem<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

pub(super) fn references(items: &[&RawValue]) -> Result<Vec<ItemId>, InvalidRequest> {
    let mut references = Vec::new();
    for (index, raw) in items.iter().enumerate() {
        let place = format!("input.{index}");
        if kind(raw, &place)?.as_deref() == Some("item_reference") {
            references.push(reference(raw, &place)?);
        }
    }
    Ok(references)
}

pub(super) fn decode_items(
    items: &[&RawValue],
    conversation: &mut ConversationBuilder,
    known: &impl Fn(ItemId) -> Option<AnswerBlock>,
) -> Result<(), InvalidRequest> {
    for (index, raw) in items.iter().enumerate() {
        item(raw, &format!("input.{index}"), conversation, known)?;
    }
    Ok(())
}

fn item(
    raw: &RawValue,
    place: &str,
    conversation: &mut ConversationBuilder,
    known: &impl Fn(ItemId) -> Option<AnswerBlock>,
) -> Result<(), InvalidRequest> {
    let kind = kind(raw, place)?;
    match kind.as_deref() {
        None | Some("message") => message(raw, place, conversation)?,
        Some("function_call") => {
            let call: CallItem<'_> = json::parse_part(raw, place)?;
            conversation.assistant(vec![MessagePart::ToolUse {
                id: ToolId::new(call.call_id),
                name: namespaced_name(call.namespace.as_deref(), call.name),
                input: parse_arguments(call.arguments.as_deref().unwrap_or_default()),
            }]);
        }
        Some("custom_tool_call") => {
            let call: CallItem<'_> = json::parse_part(raw, place)?;
            conversation.assistant(vec![MessagePart::ToolUse {
                id: ToolId::new(call.call_id),
                name: call.name,
                input: wrap_in_object(
                    CUSTOM_INPUT_FIELD,
                    call.input.as_deref().unwrap_or_default(),
                ),
            }]);
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let result: OutputItem<'_> = json::parse_part(raw, place)?;
            let output = contents(result.output, &format!("{place}.output"))?;
            conversation.result(ToolId::new(result.call_id), output);
        }
        // No model accepts reasoning back without its signature.
        Some("reasoning") => {}
        Some("item_reference") => {
            let id = reference(raw, place)?;
            let Some(block) = known(id) else {
                return Err(no_such_item(place));
            };
            conversation.assistant(block_to_part(block).into_iter().collect());
        }
        // Items of the vendor's own services: part of an answer, or an external output.
        Some(other) if other.ends_with("_output") => {
            conversation.user(vec![unknown_text(other, raw.get())]);
        }
        Some(other) => {
            conversation.assistant(vec![MessagePart::Content(unknown_text(other, raw.get()))]);
        }
    }
    Ok(())
}

fn message(
    raw: &RawValue,
    place: &str,
    conversation: &mut ConversationBuilder,
) -> Result<(), InvalidRequest> {
    let message: MessageItem<'_> = json::parse_part(raw, place)?;
    let content = contents(message.content, &format!("{place}.content"))?;
    match &*message.role {
        "system" | "developer" => conversation.system(content),
        "user" => conversation.user(content),
        "assistant" => {
            conversation.assistant(content.into_iter().map(MessagePart::Content).collect());
        }
        other => {
            let why = format!("`{other}` is not one of system, developer, user, assistant");
            return Err(InvalidRequest::in_field(format!("{place}.role"), why));
        }
    }
    Ok(())
}

/// Converts a block of an earlier answer into a part of the history.
fn block_to_part(block: AnswerBlock) -> Option<MessagePart> {
    match block {
        AnswerBlock::Text(text) => Some(MessagePart::Content(Content::Text(text))),
        AnswerBlock::Reasoning(_) => None,
        AnswerBlock::Call { id, name, input } => Some(MessagePart::ToolUse { id, name, input }),
    }
}

/// Returns the type of an item, or `None` for a message.
fn kind<'a>(raw: &'a RawValue, place: &str) -> Result<Option<Cow<'a, str>>, InvalidRequest> {
    let TypeTag { kind } = json::parse_part(raw, place)?;
    Ok(kind)
}

fn reference(raw: &RawValue, place: &str) -> Result<ItemId, InvalidRequest> {
    let item: ReferenceItem<'_> = json::parse_part(raw, place)?;
    item.id.parse().map_err(|_not_ours| no_such_item(place))
}

fn no_such_item(place: &str) -> InvalidRequest {
    let why = "there is no such item; send it whole (`store: false`)";
    InvalidRequest::in_field(format!("{place}.id"), why)
}
