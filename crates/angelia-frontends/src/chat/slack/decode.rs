//! Decodes Socket Mode envelopes into events. Pure. An unreadable envelope is skipped and never stops later
//! ones.
//!
//! A mention in a channel arrives twice, as `app_mention` and as `message`, so the key of a message is its
//! channel and time. A top-level message in a channel begins a thread.

use std::sync::Arc;

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, Sender,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    envelope::{
        CommandPayload, EventPayload, MessageFields, PressPayload, SlackEvent, SlackFileFields,
        SocketModeFrame,
    },
    mrkdwn::read_text,
};

/// The bot's identity, from `auth.test`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SlackBot {
    pub user_id: String,
    pub team_id: String,
    /// The bot's name.
    #[serde(default)]
    pub user: String,
    /// The name of the workspace.
    #[serde(default)]
    pub team: String,
}

/// Decodes an envelope. Returns `None` if it is not for us.
pub fn decode_envelope(envelope: &Value, bot: &SlackBot) -> Option<InboundEvent> {
    decode_frame(&SocketModeFrame::deserialize(envelope).ok()?, bot)
}

pub(super) fn decode_frame(frame: &SocketModeFrame, bot: &SlackBot) -> Option<InboundEvent> {
    match frame.kind.as_str() {
        "events_api" => decode_event(EventPayload::deserialize(&frame.payload).ok()?.event, bot),
        "interactive" => decode_press(PressPayload::deserialize(&frame.payload).ok()?, bot),
        "slash_commands" => {
            Some(decode_command(&CommandPayload::deserialize(&frame.payload).ok()?, bot))
        }
        _ => None,
    }
}

fn decode_event(event: SlackEvent, bot: &SlackBot) -> Option<InboundEvent> {
    if event.kind != "message" && event.kind != "app_mention" {
        return None;
    }
    let place = ChannelPlace { channel: &event.channel, is_direct: is_direct(&event) };
    match event.message.subtype.as_deref() {
        None | Some("file_share" | "thread_broadcast" | "me_message") => {
            let is_mention = event.kind == "app_mention";
            decode_message(&place, &event.message, is_mention, bot)
        }
        Some("message_changed") => {
            let changed = event.changed?;
            if changed.subtype.as_deref() == Some("tombstone") {
                return decode_deletion(&place, &changed.ts, &event.previous?, bot);
            }
            decode_edit(&place, &changed, event.previous.as_ref(), bot)
        }
        Some("message_deleted") => {
            decode_deletion(&place, &event.deleted_ts?, &event.previous?, bot)
        }
        Some(_) => None,
    }
}

/// The channel of a message.
struct ChannelPlace<'a> {
    channel: &'a str,
    is_direct: bool,
}

fn is_direct(event: &SlackEvent) -> bool {
    event.channel_type == "im" || is_direct_channel(&event.channel)
}

/// Returns whether the id of a channel is one of direct messages.
pub(super) fn is_direct_channel(channel: &str) -> bool {
    channel.starts_with('D')
}

impl ChannelPlace<'_> {
    fn chat(&self, ts: &str, thread: Option<&str>) -> Arc<str> {
        match thread.filter(|thread| !thread.is_empty()) {
            // Once a thread has answers, its first message names the thread too.
            Some(thread) if !self.is_direct || thread != ts => {
                format!("{}#{thread}", self.channel).into()
            }
            _ if self.is_direct => self.channel.into(),
            _ => format!("{}#{ts}", self.channel).into(),
        }
    }

    fn key(&self, ts: &str) -> String {
        format!("{}:{ts}", self.channel)
    }
}

fn decode_message(
    place: &ChannelPlace<'_>,
    fields: &MessageFields,
    is_mention: bool,
    bot: &SlackBot,
) -> Option<InboundEvent> {
    let sender = author_of(fields, bot)?;
    Some(InboundEvent {
        dedupe_key: place.key(&fields.ts).into(),
        chat: place.chat(&fields.ts, fields.thread_ts.as_deref()),
        sender,
        kind: InboundKind::Message(read_message(place, fields, is_mention, bot)?),
    })
}

fn decode_edit(
    place: &ChannelPlace<'_>,
    fields: &MessageFields,
    previous: Option<&MessageFields>,
    bot: &SlackBot,
) -> Option<InboundEvent> {
    let sender = author_of(fields, bot)?;
    // Slack also changes messages on its own, for example to add a link preview.
    if previous.is_some_and(|previous| previous.text == fields.text) {
        return None;
    }
    let edited = fields.edited.as_ref()?;
    Some(InboundEvent {
        dedupe_key: format!("{}:edit:{}", place.key(&fields.ts), edited.ts).into(),
        chat: place.chat(&fields.ts, fields.thread_ts.as_deref()),
        sender,
        kind: InboundKind::Edited(read_message(place, fields, false, bot)?),
    })
}

fn decode_deletion(
    place: &ChannelPlace<'_>,
    deleted: &str,
    previous: &MessageFields,
    bot: &SlackBot,
) -> Option<InboundEvent> {
    Some(InboundEvent {
        dedupe_key: format!("{}:deleted", place.key(deleted)).into(),
        chat: place.chat(deleted, previous.thread_ts.as_deref()),
        sender: author_of(previous, bot)?,
        kind: InboundKind::Deleted(deleted.into()),
    })
}

/// Returns the message, or `None` if it has neither words nor files.
fn read_message(
    place: &ChannelPlace<'_>,
    fields: &MessageFields,
    is_mention: bool,
    bot: &SlackBot,
) -> Option<InboundMessage> {
    let words = read_text(&fields.text, &bot.user_id);
    let files: Vec<InboundFile> = fields.files.iter().map(read_file).collect();
    if fields.ts.is_empty() || (words.text.trim().is_empty() && files.is_empty()) {
        return None;
    }
    let answers_bot = fields.parent_user_id.as_deref() == Some(&*bot.user_id);
    Some(InboundMessage {
        id: fields.ts.as_str().into(),
        text: words.text.trim().into(),
        is_direct: place.is_direct,
        is_addressed: is_mention || words.mentions_bot || answers_bot,
        quoted: None,
        files,
        sent_at: read_time(&fields.ts),
    })
}

fn read_file(file: &SlackFileFields) -> InboundFile {
    InboundFile {
        // Files from other workspaces have no address, so it is looked up by the id.
        id: file.url_private_download.as_deref().unwrap_or(&file.id).into(),
        name: file.name.as_deref().unwrap_or("file").into(),
        media_type: file.mimetype.as_deref().map(Into::into),
        size: file.size,
    }
}

/// Returns the author of a message, or `None` if it was a program.
fn author_of(fields: &MessageFields, bot: &SlackBot) -> Option<Sender> {
    let user = fields.user.as_deref()?;
    if fields.bot_id.is_some() || user == bot.user_id {
        return None;
    }
    let team = fields.user_team.as_deref().or(fields.team.as_deref());
    Some(Sender::new(sender_id(user, team, bot), ""))
}

/// Returns the id of a sender. Ids are unique only within a workspace, so people from other workspaces, who
/// write in shared channels, get theirs as a prefix.
fn sender_id(user: &str, team: Option<&str>, bot: &SlackBot) -> String {
    match team {
        Some(team) if team != bot.team_id && !team.is_empty() => format!("{team}:{user}"),
        _ => user.to_owned(),
    }
}

/// Splits a sender's id into the workspace and the person in it.
pub(super) fn split_sender<'a>(sender: &'a str, bot: &'a SlackBot) -> (&'a str, &'a str) {
    sender.split_once(':').unwrap_or((&bot.team_id, sender))
}

fn decode_press(press: PressPayload, bot: &SlackBot) -> Option<InboundEvent> {
    if press.kind != "block_actions" {
        return None;
    }
    let action = press.actions.into_iter().next()?;
    let channel = press.channel.map(|channel| channel.id).or(press.container.channel_id)?;
    let message_ts = press.container.message_ts;
    let thread = press.container.thread_ts.or_else(|| press.message?.thread_ts);
    let place = ChannelPlace { channel: &channel, is_direct: is_direct_channel(&channel) };
    let ts = message_ts.clone().unwrap_or_default();
    let chat = place.chat(&ts, thread.as_deref());
    let name = press.user.username.or(press.user.name).unwrap_or_default();
    let user = press.user.id;
    let id = press_id(&chat, &user);
    let moment = if action.action_ts.is_empty() { &press.trigger_id } else { &action.action_ts };
    Some(InboundEvent {
        dedupe_key: format!("press:{}:{user}:{moment}", place.key(&ts)).into(),
        sender: Sender::new(sender_id(&user, press.user.team_id.as_deref(), bot), name),
        kind: InboundKind::Press(ButtonPress {
            id: id.into(),
            value: action.value?.into(),
            message_id: message_ts.map(Into::into),
            is_direct: place.is_direct,
        }),
        chat,
    })
}

/// Returns an id that tells where and to whom a press is answered.
fn press_id(chat: &str, user: &str) -> String {
    format!("{chat} {user}")
}

/// Splits the id of a press into the chat and the person.
pub(super) fn split_press(id: &str) -> Option<(&str, &str)> {
    id.split_once(' ')
}

/// Decodes a slash command. These exist only if the owner created some, and count as ordinary
/// messages.
fn decode_command(command: &CommandPayload, bot: &SlackBot) -> InboundEvent {
    let place = ChannelPlace {
        channel: &command.channel_id,
        is_direct: is_direct_channel(&command.channel_id),
    };
    let team = command.team_id.as_deref();
    InboundEvent {
        dedupe_key: format!("command:{}", command.trigger_id).into(),
        chat: place.channel.into(),
        sender: Sender::new(sender_id(&command.user_id, team, bot), command.user_name.as_str()),
        kind: InboundKind::Message(InboundMessage {
            id: command.trigger_id.as_str().into(),
            text: format!("{} {}", command.command, command.text).trim().into(),
            is_direct: place.is_direct,
            is_addressed: true,
            quoted: None,
            files: Vec::new(),
            sent_at: read_time(&command.trigger_id),
        }),
    }
}

/// Reads the time of a message from its id, such as `1700000000.123456`.
fn read_time(ts: &str) -> Timestamp {
    let seconds = ts.split('.').next().and_then(|seconds| seconds.parse().ok());
    seconds
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
