//! The fields of an update that we read. All others are ignored.

use std::sync::Arc;

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Update {
    pub(super) update_id: i64,
    pub(super) message: Option<TelegramMessage>,
    pub(super) edited_message: Option<TelegramMessage>,
    pub(super) callback_query: Option<CallbackQuery>,
    pub(super) stopped_message_generation: Option<StoppedGeneration>,
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
    #[serde(default)]
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Chat {
    pub(super) id: i64,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct TelegramMessage {
    pub(super) message_id: i64,
    #[serde(default)]
    pub(super) date: i64,
    pub(super) chat: Chat,
    pub(super) from: Option<User>,
    pub(super) text: Option<String>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<Entity>,
    #[serde(default)]
    pub(super) caption_entities: Vec<Entity>,
    #[serde(default)]
    pub(super) is_topic_message: bool,
    pub(super) message_thread_id: Option<i64>,
    pub(super) reply_to_message: Option<Box<RepliedMessage>>,
    #[serde(default)]
    pub(super) photo: Vec<FileFields>,
    pub(super) document: Option<FileFields>,
    pub(super) voice: Option<FileFields>,
    pub(super) audio: Option<FileFields>,
    pub(super) video: Option<FileFields>,
    pub(super) video_note: Option<FileFields>,
}

#[derive(Deserialize)]
pub(super) struct RepliedMessage {
    pub(super) from: Option<User>,
    pub(super) text: Option<String>,
    pub(super) caption: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) user: Option<User>,
}

#[derive(Deserialize)]
pub(super) struct FileFields {
    pub(super) file_id: Arc<str>,
    pub(super) file_name: Option<Arc<str>>,
    pub(super) mime_type: Option<Arc<str>>,
    pub(super) file_size: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct CallbackQuery {
    pub(super) id: Arc<str>,
    pub(super) from: User,
    pub(super) message: Option<PressedMessage>,
    pub(super) data: Option<Arc<str>>,
}

#[derive(Deserialize)]
pub(super) struct PressedMessage {
    pub(super) message_id: i64,
    pub(super) chat: Chat,
    #[serde(default)]
    pub(super) is_topic_message: bool,
    pub(super) message_thread_id: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct StoppedGeneration {
    pub(super) chat: Chat,
    pub(super) message_thread_id: Option<i64>,
}
