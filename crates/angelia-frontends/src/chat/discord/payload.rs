//! The fields of dispatches that we read. All others are ignored.

use std::sync::Arc;

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) id: Arc<str>,
    #[serde(default)]
    pub(super) username: String,
    pub(super) global_name: Option<String>,
    #[serde(default)]
    pub(super) bot: bool,
}

#[derive(Deserialize)]
pub(super) struct Member {
    pub(super) nick: Option<String>,
    #[serde(default)]
    pub(super) roles: Vec<Arc<str>>,
    /// Present only in interactions.
    pub(super) user: Option<User>,
}

#[derive(Deserialize)]
pub(super) struct DiscordMessage {
    pub(super) id: Arc<str>,
    pub(super) channel_id: Arc<str>,
    pub(super) guild_id: Option<Arc<str>>,
    pub(super) author: User,
    pub(super) member: Option<Member>,
    #[serde(default)]
    pub(super) content: String,
    #[serde(rename = "type", default)]
    pub(super) kind: u32,
    pub(super) webhook_id: Option<Arc<str>>,
    pub(super) edited_timestamp: Option<String>,
    #[serde(default)]
    pub(super) mentions: Vec<MentionedUser>,
    #[serde(default)]
    pub(super) attachments: Vec<Attachment>,
    pub(super) referenced_message: Option<Box<QuotedMessage>>,
    #[serde(default)]
    pub(super) message_snapshots: Vec<Snapshot>,
}

#[derive(Deserialize)]
pub(super) struct MentionedUser {
    pub(super) id: Arc<str>,
}

#[derive(Deserialize)]
pub(super) struct QuotedMessage {
    pub(super) author: Option<MentionedUser>,
    #[serde(default)]
    pub(super) content: String,
}

/// A forwarded message.
#[derive(Deserialize)]
pub(super) struct Snapshot {
    pub(super) message: QuotedMessage,
}

#[derive(Deserialize)]
pub(super) struct Attachment {
    pub(super) url: Arc<str>,
    pub(super) filename: Arc<str>,
    pub(super) content_type: Option<String>,
    pub(super) size: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct DeletedMessages {
    pub(super) id: Option<Arc<str>>,
    #[serde(default)]
    pub(super) ids: Vec<Arc<str>>,
    pub(super) channel_id: Arc<str>,
    pub(super) guild_id: Option<Arc<str>>,
}

#[derive(Deserialize)]
pub(super) struct Interaction {
    pub(super) id: Arc<str>,
    pub(super) token: Arc<str>,
    #[serde(rename = "type")]
    pub(super) kind: u32,
    pub(super) channel_id: Option<Arc<str>>,
    pub(super) guild_id: Option<Arc<str>>,
    pub(super) member: Option<Member>,
    pub(super) user: Option<User>,
    pub(super) message: Option<PressedMessage>,
    #[serde(default)]
    pub(super) data: InteractionData,
}

#[derive(Deserialize)]
pub(super) struct PressedMessage {
    pub(super) id: Arc<str>,
}

#[derive(Default, Deserialize)]
pub(super) struct InteractionData {
    pub(super) custom_id: Option<Arc<str>>,
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) options: Vec<CommandOption>,
}

#[derive(Deserialize)]
pub(super) struct CommandOption {
    #[serde(default)]
    pub(super) value: serde_json::Value,
}
