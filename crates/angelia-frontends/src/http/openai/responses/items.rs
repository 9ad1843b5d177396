//! Decodes the items of a request's input: messages, calls, results, and other items that a client
//! sends back from an answer.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::{Content, Part, ToolId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::{
        super::dialect::{Refused, WholeBlock, content::unknown_text, json},
        contents::{Kind, contents},
        conversation::{Conversation, arguments, wrapped},
    },
    ItemId,
    names::{INPUT, within},
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

pub(super) fn references(items: &[&RawValue]) -> Result<Vec<ItemId>, Refused> {
    let mut references = Vec::new();
    for (index, raw) in items.iter().enumerate() {
        let place = format!("input.{index}");
        if kind(raw, &place)?.as_deref() == Some("item_reference") {
            references.push(reference(raw, &place)?);
        }
    }
    Ok(references)
}

pub(super) fn read(
    items: &[&RawValue],
    conversation: &mut Conversation,
    known: &impl Fn(ItemId) -> Option<WholeBlock>,
) -> Result<(), Refused> {
    for (index, raw) in items.iter().enumerate() {
        item(raw, &format!("input.{index}"), conversation, known)?;
    }
    Ok(())
}

fn item(
    raw: &RawValue,
    place: &str,
    conversation: &mut Conversation,
    known: &impl Fn(ItemId) -> Option<WholeBlock>,
) -> Result<(), Refused> {
    let kind = kind(raw, place)?;
    match kind.as_deref() {
        None | Some("message") => message(raw, place, conversation)?,
        Some("function_call") => {
            let call: CallItem<'_> = json::part(raw, place)?;
            conversation.assistant(vec![Part::ToolUse {
                id: ToolId::new(call.call_id),
                name: within(call.namespace.as_deref(), call.name),
                input: arguments(call.arguments.as_deref().unwrap_or_default()),
            }]);
        }
        Some("custom_tool_call") => {
            let call: CallItem<'_> = json::part(raw, place)?;
            conversation.assistant(vec![Part::ToolUse {
                id: ToolId::new(call.call_id),
                name: call.name,
                input: wrapped(INPUT, call.input.as_deref().unwrap_or_default()),
            }]);
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let result: OutputItem<'_> = json::part(raw, place)?;
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
            conversation.assistant(part_of(block).into_iter().collect());
        }
        // Items of the vendor's own services: part of an answer, or an output from outside.
        Some(other) if other.ends_with("_output") => {
            conversation.user(vec![unknown_text(other, raw.get())]);
        }
        Some(other) => {
            conversation.assistant(vec![Part::Content(unknown_text(other, raw.get()))]);
        }
    }
    Ok(())
}

fn message(raw: &RawValue, place: &str, conversation: &mut Conversation) -> Result<(), Refused> {
    let message: MessageItem<'_> = json::part(raw, place)?;
    let content = contents(message.content, &format!("{place}.content"))?;
    match &*message.role {
        "system" | "developer" => conversation.system(content),
        "user" => conversation.user(content),
        "assistant" => {
            conversation.assistant(content.into_iter().map(Part::Content).collect());
        }
        other => {
            let place = format!("{place}.role");
            let known = "system, developer, user, assistant";
            let message = format!("{place}: `{other}` is not one of {known}");
            return Err(Refused::new(message).at(place));
        }
    }
    Ok(())
}

/// Converts a block of an earlier answer into a part of the history.
fn part_of(block: WholeBlock) -> Option<Part> {
    match block {
        WholeBlock::Text(text) => Some(Part::Content(Content::Text(text))),
        WholeBlock::Reasoning(_) => None,
        WholeBlock::Call { id, name, input } => Some(Part::ToolUse { id, name, input }),
    }
}

/// Returns the type of an item; `None` means a message.
fn kind<'a>(raw: &'a RawValue, place: &str) -> Result<Option<Cow<'a, str>>, Refused> {
    let Kind { kind } = json::part(raw, place)?;
    Ok(kind)
}

fn reference(raw: &RawValue, place: &str) -> Result<ItemId, Refused> {
    let item: ReferenceItem<'_> = json::part(raw, place)?;
    item.id.parse().map_err(|_not_ours| no_such_item(place))
}

fn no_such_item(place: &str) -> Refused {
    let place = format!("{place}.id");
    let message = format!("{place}: there is no such item; send it whole (`store: false`)");
    Refused::new(message).at(place)
}
