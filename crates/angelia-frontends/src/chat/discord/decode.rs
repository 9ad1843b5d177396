//! Decodes gateway dispatches into events. Pure. An unreadable dispatch is skipped and never stops later ones.

use std::sync::Arc;

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, Sender,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::payload::{
    Attachment, DeletedMessages, DiscordMessage, Interaction, Member, QuotedMessage, User,
};

/// The message types that contain a person's words: a message, and a reply to one.
const WORD_KINDS: [u32; 2] = [0, 19];

/// The types of interactions.
const COMMAND: u32 = 2;
const PRESS: u32 = 3;

/// Discord ids start with the milliseconds since 2015.
const DISCORD_EPOCH: u64 = 1_420_070_400_000;

/// An event, and what the connection needs to handle it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The event's `chat` is the channel, which may be a thread in another channel.
    pub event: InboundEvent,
    /// Whether it comes from a server, where channels may be threads.
    pub is_in_server: bool,
    /// The id of the command interaction that caused the event. It must be answered.
    pub command: Option<Arc<str>>,
}

impl Dispatch {
    /// Returns whether this is a server message that is not addressed to the bot.
    pub fn is_foreign(&self) -> bool {
        match &self.event.kind {
            InboundKind::Message(message) | InboundKind::Edited(message) => {
                !message.is_direct && !message.is_addressed
            }
            InboundKind::Deleted(_) | InboundKind::Press(_) | InboundKind::Stop => false,
        }
    }
}

/// Decodes a dispatch. `bot` is the bot's id.
pub fn decode_dispatch(name: &str, data: &Value, bot: &str) -> Vec<Dispatch> {
    match name {
        "MESSAGE_CREATE" => decode_message(data, bot, false).into_iter().collect(),
        "MESSAGE_UPDATE" => decode_message(data, bot, true).into_iter().collect(),
        "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => decode_deletions(data),
        "INTERACTION_CREATE" => decode_interaction(data).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn decode_message(data: &Value, bot: &str, is_edit: bool) -> Option<Dispatch> {
    let message = DiscordMessage::deserialize(data).ok()?;
    let is_person = !message.author.bot && message.webhook_id.is_none();
    if !is_person || !WORD_KINDS.contains(&message.kind) {
        return None;
    }
    let dedupe_key = match (&message.edited_timestamp, is_edit) {
        (_, false) => format!("message-{}", message.id),
        (Some(edited), true) => format!("edit-{}-{edited}", message.id),
        // Something else about the message changed, such as a link preview.
        (None, true) => return None,
    };
    let is_in_server = message.guild_id.is_some();
    let sender = sender_of(&message.author, message.member.as_ref());
    let chat = Arc::clone(&message.channel_id);
    let message = read_words(message, bot)?;
    let kind = if is_edit { InboundKind::Edited(message) } else { InboundKind::Message(message) };
    let event = InboundEvent { dedupe_key: dedupe_key.into(), chat, sender, kind };
    Some(Dispatch { event, is_in_server, command: None })
}

/// Returns the message, or `None` if it has neither words nor files nor quoted text.
fn read_words(message: DiscordMessage, bot: &str) -> Option<InboundMessage> {
    let is_bot =
        |quoted: &QuotedMessage| quoted.author.as_ref().is_some_and(|author| *author.id == *bot);
    let replied = message.referenced_message;
    let answers_bot = replied.as_deref().is_some_and(is_bot);
    let is_addressed = answers_bot || message.mentions.iter().any(|user| *user.id == *bot);
    let forwarded = message.message_snapshots.into_iter().next().map(|one| one.message.content);
    let quoted = replied.filter(|_| !answers_bot).map(|replied| replied.content).or(forwarded);
    let quoted = quoted.filter(|text| !text.is_empty()).map(Arc::from);
    let text = remove_mention(&message.content, bot);
    let files: Vec<InboundFile> = message.attachments.into_iter().map(read_file).collect();
    if text.trim().is_empty() && files.is_empty() && quoted.is_none() {
        return None;
    }
    Some(InboundMessage {
        sent_at: sent_at(&message.id),
        id: message.id,
        text: text.trim().into(),
        is_direct: message.guild_id.is_none(),
        is_addressed,
        quoted,
        files,
    })
}

fn read_file(file: Attachment) -> InboundFile {
    let media_type = file.content_type.as_deref().and_then(|kind| kind.split(';').next());
    InboundFile {
        id: file.url,
        name: file.filename,
        media_type: media_type.map(|kind| kind.trim().into()),
        size: file.size,
    }
}

fn decode_deletions(data: &Value) -> Vec<Dispatch> {
    let Ok(deleted) = DeletedMessages::deserialize(data) else { return Vec::new() };
    let DeletedMessages { id, ids, channel_id, guild_id } = deleted;
    let event = |id: Arc<str>| InboundEvent {
        dedupe_key: format!("delete-{id}").into(),
        chat: Arc::clone(&channel_id),
        // Discord does not say who deleted the message.
        sender: Sender::default(),
        kind: InboundKind::Deleted(id),
    };
    let is_in_server = guild_id.is_some();
    let events = id.into_iter().chain(ids).map(event);
    events.map(|event| Dispatch { event, is_in_server, command: None }).collect()
}

fn decode_interaction(data: &Value) -> Option<Dispatch> {
    let mut interaction = Interaction::deserialize(data).ok()?;
    let is_direct = interaction.guild_id.is_none();
    let mut member = interaction.member.take();
    let user = member.as_mut().and_then(|member| member.user.take()).or(interaction.user.take())?;
    let dedupe_key: Arc<str> = format!("interaction-{}", interaction.id).into();
    // Answering an interaction takes both its id and its token.
    let answer_id: Arc<str> = format!("{}/{}", interaction.id, interaction.token).into();
    let (kind, command) = match interaction.kind {
        PRESS => {
            let press = ButtonPress {
                id: answer_id,
                value: interaction.data.custom_id?,
                message_id: interaction.message.map(|message| message.id),
                is_direct,
            };
            (InboundKind::Press(press), None)
        }
        COMMAND => {
            let mut text = format!("/{}", interaction.data.name?);
            for option in &interaction.data.options {
                text.push(' ');
                text.push_str(option.value.as_str().unwrap_or_default());
            }
            let message = InboundMessage {
                // There is no message that an answer could refer to.
                id: dedupe_key.clone(),
                text: text.trim().into(),
                is_direct,
                is_addressed: true,
                quoted: None,
                files: Vec::new(),
                sent_at: sent_at(&interaction.id),
            };
            (InboundKind::Message(message), Some(answer_id))
        }
        _ => return None,
    };
    let sender = sender_of(&user, member.as_ref());
    let event = InboundEvent { dedupe_key, chat: interaction.channel_id?, sender, kind };
    Some(Dispatch { event, is_in_server: !is_direct, command })
}

fn sender_of(user: &User, member: Option<&Member>) -> Sender {
    let nick = member.and_then(|member| member.nick.as_deref());
    let name = nick.or(user.global_name.as_deref()).unwrap_or(&user.username);
    Sender {
        id: Arc::clone(&user.id),
        name: name.into(),
        roles: member.map(|member| member.roles.clone()).unwrap_or_default(),
    }
}

/// Removes mentions of the bot. Older clients write them with an exclamation mark.
fn remove_mention(text: &str, bot: &str) -> String {
    text.replace(&format!("<@{bot}>"), "").replace(&format!("<@!{bot}>"), "")
}

fn sent_at(id: &str) -> Timestamp {
    let milliseconds = id.parse::<u64>().map(|id| (id >> 22) + DISCORD_EPOCH).ok();
    let milliseconds = milliseconds.and_then(|milliseconds| i64::try_from(milliseconds).ok());
    let time = milliseconds.and_then(|time| Timestamp::from_millisecond(time).ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const BOT: &str = "99";

    fn message(extra: &Value) -> Value {
        let mut message = json!({
            "id": "175928847299117063", "channel_id": "5", "type": 0, "content": "hello",
            "author": {"id": "7", "username": "ada", "global_name": "Ada"}, "mentions": [],
            "attachments": [],
        });
        message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        message
    }

    fn decode(name: &str, data: &Value) -> Dispatch {
        decode_dispatch(name, data, BOT).remove(0)
    }

    fn words(event: &Dispatch) -> &InboundMessage {
        match &event.event.kind {
            InboundKind::Message(message) | InboundKind::Edited(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_direct_message_is_for_us() {
        let event = decode("MESSAGE_CREATE", &message(&json!({})));
        assert_eq!(&*event.event.dedupe_key, "message-175928847299117063");
        assert_eq!((&*event.event.chat, &*event.event.sender.name), ("5", "Ada"));
        let words = words(&event);
        assert!(words.is_direct && !event.is_foreign() && !event.is_in_server);
        assert_eq!(words.sent_at.to_string(), "2016-04-30T11:18:25.796Z");
    }

    #[test]
    fn in_a_server_a_message_is_for_us_if_it_names_us_or_answers_us() {
        let server = json!({"guild_id": "3", "member": {"nick": "A", "roles": ["r1"]}});
        let with = |extra: Value| {
            let mut fields = server.clone();
            fields.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            decode("MESSAGE_CREATE", &message(&fields))
        };
        let plain = with(json!({}));
        assert!(plain.is_foreign() && plain.is_in_server);
        assert_eq!((&*plain.event.sender.name, plain.event.sender.roles.len()), ("A", 1));
        let mention = with(json!({"content": "<@99> do <@!99>it", "mentions": [{"id": "99"}]}));
        assert!(!mention.is_foreign());
        assert_eq!(&*words(&mention).text, "do it");
        let answer = with(json!({"type": 19, "referenced_message": {
            "id": "1", "content": "ok?", "author": {"id": "99", "bot": true},
        }}));
        assert!(words(&answer).is_addressed && words(&answer).quoted.is_none());
        let other = with(json!({"type": 19, "referenced_message": {
            "id": "1", "content": "said", "author": {"id": "8"},
        }}));
        assert_eq!(words(&other).quoted.as_deref(), Some("said"));
        assert!(other.is_foreign());
    }

    #[test]
    fn edits_deletions_files_and_forwards_are_read() {
        let edit = message(&json!({"content": "new", "edited_timestamp": "2026-01-01T00:00:00Z"}));
        let edited = decode("MESSAGE_UPDATE", &edit);
        assert!(matches!(edited.event.kind, InboundKind::Edited(_)));
        assert_ne!(edited.event.dedupe_key, decode("MESSAGE_CREATE", &edit).event.dedupe_key);
        assert!(
            decode_dispatch("MESSAGE_UPDATE", &message(&json!({})), BOT).is_empty(),
            "a preview"
        );
        let deleted = json!({"id": "4", "channel_id": "5", "guild_id": "3"});
        let deleted = decode("MESSAGE_DELETE", &deleted);
        assert_eq!(deleted.event.kind, InboundKind::Deleted("4".into()));
        let many = json!({"ids": ["1", "2"], "channel_id": "5"});
        assert_eq!(decode_dispatch("MESSAGE_DELETE_BULK", &many, BOT).len(), 2);
        let file = message(&json!({"content": "", "attachments": [{
            "id": "1", "url": "https://cdn/x", "filename": "a.txt", "size": 3,
            "content_type": "text/plain; charset=utf-8",
        }]}));
        let file = decode("MESSAGE_CREATE", &file);
        let file = &words(&file).files[0];
        assert_eq!((&*file.id, file.media_type.as_deref()), ("https://cdn/x", Some("text/plain")));
        let forward = json!({"content": "", "message_snapshots": [{"message": {"content": "it"}}]});
        let forward = decode("MESSAGE_CREATE", &message(&forward));
        assert_eq!(words(&forward).quoted.as_deref(), Some("it"));
    }

    #[test]
    fn presses_and_commands_are_read() {
        let press = json!({
            "id": "1", "token": "t", "type": 3, "channel_id": "5", "guild_id": "3",
            "member": {"roles": ["r"], "user": {"id": "7", "username": "ada"}},
            "message": {"id": "8"}, "data": {"custom_id": "v", "component_type": 2},
        });
        let press = decode("INTERACTION_CREATE", &press);
        assert_eq!((&*press.event.sender.id, press.event.sender.roles.len()), ("7", 1));
        let InboundKind::Press(button) = &press.event.kind else { panic!() };
        assert_eq!((&*button.id, &*button.value, button.is_direct), ("1/t", "v", false));
        let command = json!({
            "id": "2", "token": "u", "type": 2, "channel_id": "5", "user": {"id": "7"},
            "data": {"name": "resume", "options": [{"name": "text", "type": 3, "value": "ab12"}]},
        });
        let command = decode("INTERACTION_CREATE", &command);
        assert_eq!(&*words(&command).text, "/resume ab12");
        assert_eq!(command.command.as_deref(), Some("2/u"));
        assert!(words(&command).is_direct && words(&command).is_addressed);
    }

    #[test]
    fn programs_and_garbage_are_left_out() {
        for nothing in [
            message(&json!({"author": {"id": "1", "bot": true}})),
            message(&json!({"webhook_id": "1"})),
            message(&json!({"type": 7})),
            message(&json!({"content": " <@99> "})),
            json!({"id": 1}),
            json!([]),
            json!(null),
        ] {
            assert_eq!(decode_dispatch("MESSAGE_CREATE", &nothing, BOT), [], "{nothing}");
            assert_eq!(decode_dispatch("INTERACTION_CREATE", &nothing, BOT), [], "{nothing}");
            assert_eq!(decode_dispatch("TYPING_START", &nothing, BOT), []);
        }
    }

    proptest! {
        #[test]
        fn no_message_breaks_it(id in "\\PC{0,24}", content in "\\PC{0,40}", kind in 0_u32..25) {
            let data = message(&json!({"id": id, "content": content, "type": kind}));
            for name in ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "INTERACTION_CREATE"] {
                let _any = decode_dispatch(name, &data, BOT);
            }
        }
    }
}
