//! A request to a model, and its encoding in any of the APIs.

use std::sync::Arc;

use angelia_core::model::{CallerTool, RawJson, ReasoningEffort};
use serde::Serialize;

use super::{
    Api, Conversation, Issuer, Message, Quirks, WireTarget, chat, messages, normalise, responses,
};

/// Everything that the body of a request is made from.
#[derive(Clone, Copy, Debug)]
pub struct ProviderRequest<'a> {
    pub issuer: &'a Issuer,
    pub conversation: &'a Conversation,
    pub tools: &'a [CallerTool],
    pub settings: &'a RequestSettings,
    pub quirks: &'a Quirks,
}

#[derive(Clone, Debug, Default)]
pub struct RequestSettings {
    pub max_output_tokens: Option<u64>,
    /// `None`: the model's own default.
    pub effort: Option<ReasoningEffort>,
    /// The schema of the answer's text.
    pub output_schema: Option<RawJson>,
    /// The same for all requests of a session, so that a provider finds its cache.
    pub cache_key: Option<Arc<str>>,
    /// The model takes no images, or has refused one.
    pub without_images: bool,
    /// The provider has rejected its own reasoning.
    pub without_reasoning: bool,
    /// The provider has rejected keywords of the tools' schemas.
    pub plain_schemas: bool,
}

/// Returns the body of a request. Request *n* of a conversation, without its closing brackets and
/// cache marks, is a prefix of request *n + 1*.
pub fn encode_request(request: &ProviderRequest<'_>) -> Vec<u8> {
    let conversation = &request.conversation.messages;
    let messages = normalise(conversation, &wire_target(request));
    match request.issuer.api {
        Api::Messages => messages::encode(request, &messages),
        Api::Chat => chat::encode(request, &messages),
        Api::Responses => responses::encode(request, &messages),
    }
}

fn wire_target<'a>(request: &ProviderRequest<'a>) -> WireTarget<'a> {
    WireTarget {
        issuer: request.issuer,
        images: !request.settings.without_images,
        reasoning: !request.settings.without_reasoning,
        merge_user_turns: request.quirks.merge_user_turns,
    }
}

/// Serialises a body. Its types have string keys and no failing parts, so nothing can go wrong.
pub(super) fn to_bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

/// Returns the schema of a tool's input, without the keywords that some servers cannot compile if
/// they have said so.
pub(super) fn input_schema(tool: &CallerTool, plain: bool) -> SchemaText<'_> {
    if !plain {
        return SchemaText::AsGiven(tool.input_schema.as_ref());
    }
    let mut schema = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    remove_keywords(&mut schema);
    SchemaText::Plain(schema)
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum SchemaText<'a> {
    AsGiven(&'a serde_json::value::RawValue),
    Plain(serde_json::Value),
}

/// Removes `pattern` and `format` where they are keywords, not names of properties.
fn remove_keywords(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Object(fields) => {
            for keyword in ["pattern", "format"] {
                if fields.get(keyword).is_some_and(serde_json::Value::is_string) {
                    fields.shift_remove(keyword);
                }
            }
            fields.values_mut().for_each(remove_keywords);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(remove_keywords),
        _ => {}
    }
}

/// Returns the places of the last two messages of the user's side, which get cache marks.
pub(super) fn marked_messages(messages: &[Message]) -> [Option<usize>; 2] {
    let user_side = |(_, message): &(usize, &Message)| !matches!(message, Message::Assistant(_));
    let mut places = messages.iter().enumerate().filter(user_side).map(|(place, _)| place).rev();
    [places.next(), places.next()]
}
