//! Events as the file has them.

use std::sync::Arc;

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, Sender,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(super) struct EventJson {
    chat: Arc<str>,
    sender_id: Arc<str>,
    sender_name: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sender_roles: Vec<Arc<str>>,
    kind: KindJson,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindJson {
    Message(MessageJson),
    Edited(MessageJson),
    Deleted(Arc<str>),
    Press(PressJson),
    Stop,
}

#[derive(Serialize, Deserialize)]
struct MessageJson {
    id: Arc<str>,
    text: Arc<str>,
    is_direct: bool,
    is_addressed: bool,
    quoted: Option<Arc<str>>,
    files: Vec<FileJson>,
    sent_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct FileJson {
    id: Arc<str>,
    name: Arc<str>,
    media_type: Option<Arc<str>>,
    size: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct PressJson {
    id: Arc<str>,
    value: Arc<str>,
    message_id: Option<Arc<str>>,
    is_direct: bool,
}

impl From<&InboundEvent> for EventJson {
    fn from(event: &InboundEvent) -> Self {
        Self {
            chat: Arc::clone(&event.chat),
            sender_id: Arc::clone(&event.sender.id),
            sender_name: Arc::clone(&event.sender.name),
            sender_roles: event.sender.roles.clone(),
            kind: match &event.kind {
                InboundKind::Message(message) => KindJson::Message(message.into()),
                InboundKind::Edited(message) => KindJson::Edited(message.into()),
                InboundKind::Deleted(id) => KindJson::Deleted(Arc::clone(id)),
                InboundKind::Press(press) => KindJson::Press(press.into()),
                InboundKind::Stop => KindJson::Stop,
            },
        }
    }
}

impl EventJson {
    pub(super) fn into_event(self, dedupe_key: Arc<str>) -> InboundEvent {
        InboundEvent {
            dedupe_key,
            chat: self.chat,
            sender: Sender { id: self.sender_id, name: self.sender_name, roles: self.sender_roles },
            kind: match self.kind {
                KindJson::Message(message) => InboundKind::Message(message.into()),
                KindJson::Edited(message) => InboundKind::Edited(message.into()),
                KindJson::Deleted(id) => InboundKind::Deleted(id),
                KindJson::Press(press) => InboundKind::Press(press.into()),
                KindJson::Stop => InboundKind::Stop,
            },
        }
    }
}

impl From<&InboundMessage> for MessageJson {
    fn from(message: &InboundMessage) -> Self {
        let InboundMessage { id, text, is_direct, is_addressed, quoted, files, sent_at } =
            message.clone();
        let files = files.into_iter();
        let files = files.map(|InboundFile { id, name, media_type, size }| FileJson {
            id,
            name,
            media_type,
            size,
        });
        Self { id, text, is_direct, is_addressed, quoted, files: files.collect(), sent_at }
    }
}

impl From<MessageJson> for InboundMessage {
    fn from(message: MessageJson) -> Self {
        let MessageJson { id, text, is_direct, is_addressed, quoted, files, sent_at } = message;
        let files = files.into_iter();
        let files = files.map(|FileJson { id, name, media_type, size }| InboundFile {
            id,
            name,
            media_type,
            size,
        });
        Self { id, text, is_direct, is_addressed, quoted, files: files.collect(), sent_at }
    }
}

impl From<&ButtonPress> for PressJson {
    fn from(press: &ButtonPress) -> Self {
        let ButtonPress { id, value, message_id, is_direct } = press.clone();
        Self { id, value, message_id, is_direct }
    }
}

impl From<PressJson> for ButtonPress {
    fn from(press: PressJson) -> Self {
        let PressJson { id, value, message_id, is_direct } = press;
        Self { id, value, message_id, is_direct }
    }
}
