//! A request to a model, and its encoding in any of the APIs.

use std::sync::Arc;

use angelia_core::model::{CallerTool, RawJson, ReasoningEffort, ToolChoice};
use serde::Serialize;

use super::{
    Api, Conversation, EncodedHistory, Issuer, Message, Quirks, WireTarget, chat,
    element_list::ElementList, messages, responses,
};

/// Everything that the body of a request is built from.
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
    /// `None` for the model's own default.
    pub effort: Option<ReasoningEffort>,
    /// The schema of the answer's text.
    pub output_schema: Option<RawJson>,
    /// Whether the model may or must call a tool; sent only if there are tools.
    pub tool_choice: ToolChoice,
    /// The same for all requests of a session, so that a provider finds its cache.
    pub cache_key: Option<Arc<str>>,
    /// The model accepts no images, or has refused one.
    pub without_images: bool,
    /// The provider has rejected its own reasoning.
    pub without_reasoning: bool,
    /// The provider has rejected keywords of the tools' schemas.
    pub plain_schemas: bool,
}

impl ProviderRequest<'_> {
    pub(super) fn wire_target(&self) -> WireTarget {
        WireTarget {
            issuer: self.issuer.clone(),
            images: !self.settings.without_images,
            reasoning: !self.settings.without_reasoning,
            merge_user_turns: self.quirks.merge_user_turns,
        }
    }

    /// Returns the body without messages. It ends with the array for the messages, which may
    /// already contain a system prompt.
    pub(super) fn head(&self) -> Vec<u8> {
        match self.issuer.api {
            Api::Messages => messages::encode_head(self),
            Api::Chat => chat::encode_head(self),
            Api::Responses => responses::encode_head(self),
        }
    }

    /// Encodes a message of a normalised conversation.
    pub(super) fn push_message(&self, message: &Message, out: &mut ElementList) {
        match self.issuer.api {
            Api::Messages => messages::push_message(message, self.quirks, out),
            Api::Chat => chat::push_message(message, self, out),
            Api::Responses => responses::push_message(message, self.quirks, out),
        }
    }
}

/// Returns the body of a request. Request *n* of a conversation, without its closing brackets and
/// cache marks, is a prefix of request *n + 1*.
pub fn encode_request(request: &ProviderRequest<'_>) -> Vec<u8> {
    EncodedHistory::default().encode(request)
}

/// Serialises a body. This cannot fail, because the types have string keys and no fallible parts.
pub(super) fn to_bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

/// Returns the schema of a tool's input. `plain`: without the keywords that some servers cannot
/// compile.
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
