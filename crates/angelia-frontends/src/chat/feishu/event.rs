//! The fields of an event that we read. All others are ignored.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct Envelope {
    pub(super) header: EventHeader,
    pub(super) event: Value,
}

#[derive(Deserialize)]
pub(super) struct EventHeader {
    pub(super) event_id: Arc<str>,
    pub(super) event_type: String,
}

#[derive(Deserialize)]
pub(super) struct MessageEvent {
    pub(super) sender: EventSender,
    pub(super) message: EventMessage,
}

#[derive(Deserialize)]
pub(super) struct EventSender {
    pub(super) sender_id: PersonId,
    #[serde(default)]
    pub(super) sender_type: String,
}

#[derive(Deserialize)]
pub(super) struct PersonId {
    pub(super) open_id: Option<Arc<str>>,
}

#[derive(Deserialize)]
pub(super) struct EventMessage {
    pub(super) message_id: Arc<str>,
    pub(super) root_id: Option<String>,
    pub(super) parent_id: Option<Arc<str>>,
    pub(super) thread_id: Option<String>,
    pub(super) chat_id: Arc<str>,
    #[serde(default)]
    pub(super) chat_type: String,
    #[serde(default)]
    pub(super) message_type: String,
    /// JSON in a string.
    #[serde(default)]
    pub(super) content: String,
    #[serde(default)]
    pub(super) mentions: Vec<Mention>,
    /// Milliseconds since 1970, as a string.
    #[serde(default)]
    pub(super) create_time: Value,
}

#[derive(Deserialize)]
pub(super) struct Mention {
    /// The placeholder in the text, such as `@_user_1`.
    pub(super) key: String,
    pub(super) id: PersonId,
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct RecalledEvent {
    pub(super) message_id: Arc<str>,
    pub(super) chat_id: Arc<str>,
}

#[derive(Deserialize)]
pub(super) struct ActionEvent {
    pub(super) operator: PersonId,
    pub(super) action: PressedAction,
    pub(super) context: ActionContext,
}

#[derive(Deserialize)]
pub(super) struct PressedAction {
    pub(super) value: PressedValue,
}

/// The value that we put into a button.
#[derive(Deserialize)]
pub(super) struct PressedValue {
    pub(super) value: Arc<str>,
    /// Whether the button is in a direct chat, if that was known.
    pub(super) direct: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct ActionContext {
    pub(super) open_message_id: Option<Arc<str>>,
    pub(super) open_chat_id: Arc<str>,
}
