//! The fields of an envelope that we read. All others are ignored.

use serde::Deserialize;
use serde_json::Value;

/// A frame of Socket Mode.
#[derive(Deserialize)]
pub(super) struct SocketModeFrame {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    /// Present only in frames that must be acknowledged.
    pub(super) envelope_id: Option<String>,
    /// Why the server is about to close the connection.
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) payload: Value,
}

/// The payload of `events_api`.
#[derive(Deserialize)]
pub(super) struct EventPayload {
    pub(super) event: SlackEvent,
}

/// A message in a channel, or a change of one.
#[derive(Deserialize)]
pub(super) struct SlackEvent {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) channel: String,
    #[serde(default)]
    pub(super) channel_type: String,
    #[serde(flatten)]
    pub(super) message: MessageFields,
    /// The new content in a `message_changed` event.
    #[serde(rename = "message")]
    pub(super) changed: Option<MessageFields>,
    #[serde(rename = "previous_message")]
    pub(super) previous: Option<MessageFields>,
    pub(super) deleted_ts: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
pub(super) struct MessageFields {
    #[serde(default)]
    pub(super) ts: String,
    pub(super) subtype: Option<String>,
    pub(super) user: Option<String>,
    pub(super) bot_id: Option<String>,
    /// The author's workspace, if it is not that of the app.
    pub(super) user_team: Option<String>,
    pub(super) team: Option<String>,
    #[serde(default)]
    pub(super) text: String,
    pub(super) thread_ts: Option<String>,
    /// The author of the first message of the thread.
    pub(super) parent_user_id: Option<String>,
    #[serde(default)]
    pub(super) files: Vec<SlackFileFields>,
    pub(super) edited: Option<EditFields>,
}

#[derive(Clone, Deserialize)]
pub(super) struct EditFields {
    #[serde(default)]
    pub(super) ts: String,
}

#[derive(Clone, Deserialize)]
pub(super) struct SlackFileFields {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) mimetype: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) url_private_download: Option<String>,
}

/// The payload of `interactive`.
#[derive(Deserialize)]
pub(super) struct PressPayload {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) user: PressUser,
    pub(super) channel: Option<PressChannel>,
    #[serde(default)]
    pub(super) container: PressContainer,
    pub(super) message: Option<MessageFields>,
    #[serde(default)]
    pub(super) trigger_id: String,
    #[serde(default)]
    pub(super) actions: Vec<PressAction>,
}

#[derive(Deserialize)]
pub(super) struct PressUser {
    pub(super) id: String,
    pub(super) username: Option<String>,
    pub(super) name: Option<String>,
    pub(super) team_id: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct PressChannel {
    pub(super) id: String,
}

#[derive(Default, Deserialize)]
pub(super) struct PressContainer {
    pub(super) channel_id: Option<String>,
    pub(super) message_ts: Option<String>,
    pub(super) thread_ts: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct PressAction {
    pub(super) value: Option<String>,
    #[serde(default)]
    pub(super) action_ts: String,
}

/// The payload of `slash_commands`.
#[derive(Deserialize)]
pub(super) struct CommandPayload {
    pub(super) command: String,
    #[serde(default)]
    pub(super) text: String,
    pub(super) user_id: String,
    #[serde(default)]
    pub(super) user_name: String,
    pub(super) team_id: Option<String>,
    pub(super) channel_id: String,
    pub(super) trigger_id: String,
}
