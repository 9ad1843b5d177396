//! Decodes Bot API updates into events. Pure. An unreadable update is skipped and never stops later ones.

use std::{ops::Range, sync::Arc};

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, Sender,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::update::{
    CallbackQuery, Chat, Entity, StoppedGeneration, TelegramMessage, Update, User,
};

/// The bot's identity, from `getMe`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct BotIdentity {
    pub id: i64,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub can_read_all_group_messages: bool,
}

/// Returns the number of an update.
pub(super) fn update_id(update: &Value) -> Option<i64> {
    update.get("update_id")?.as_i64()
}

/// Decodes the updates of one poll. The pictures of an album arrive as separate messages, one of which has the
/// words; this joins them into one message.
pub fn decode_updates(updates: &[Value], bot: &BotIdentity) -> Vec<InboundEvent> {
    let mut events: Vec<InboundEvent> = Vec::new();
    let mut open_album = None;
    for update in updates {
        let Some(event) = decode_update(update, bot) else { continue };
        let album = update["message"]["media_group_id"].as_str();
        let is_same = album.is_some() && album == open_album;
        open_album = album;
        match events.last_mut() {
            Some(last) if is_same && last.chat == event.chat && last.sender == event.sender => {
                join_album(last, event);
            }
            _ => events.push(event),
        }
    }
    events
}

fn join_album(first: &mut InboundEvent, next: InboundEvent) {
    if let (InboundKind::Message(first), InboundKind::Message(next)) = (&mut first.kind, next.kind)
    {
        first.files.extend(next.files);
        first.is_addressed |= next.is_addressed;
        if first.text.is_empty() {
            first.text = next.text;
        }
    }
}

/// Decodes an update. Returns `None` if it is not for us.
pub fn decode_update(update: &Value, bot: &BotIdentity) -> Option<InboundEvent> {
    let update = Update::deserialize(update).ok()?;
    let dedupe_key: Arc<str> = update.update_id.to_string().into();
    if let Some(press) = update.callback_query {
        return decode_press(dedupe_key, press);
    }
    if let Some(StoppedGeneration { chat, message_thread_id }) = update.stopped_message_generation {
        // Drafts exist only in private chats, whose id is that of the person.
        let sender = Sender::new(chat.id.to_string(), "");
        let chat = chat_name(&chat, message_thread_id);
        return Some(InboundEvent { dedupe_key, chat, sender, kind: InboundKind::Stop });
    }
    let (message, is_edit) = match (update.message, update.edited_message) {
        (Some(message), _) => (message, false),
        (None, Some(message)) => (message, true),
        (None, None) => return None,
    };
    let from = message.from.as_ref().filter(|from| !from.is_bot)?;
    let sender = sender_of(from);
    let chat =
        chat_name(&message.chat, message.message_thread_id.filter(|_| message.is_topic_message));
    let message = decode_message(message, bot)?;
    let kind = if is_edit { InboundKind::Edited(message) } else { InboundKind::Message(message) };
    Some(InboundEvent { dedupe_key, chat, sender, kind })
}

fn decode_press(dedupe_key: Arc<str>, press: CallbackQuery) -> Option<InboundEvent> {
    let message = press.message?;
    let is_direct = message.chat.kind == "private";
    let thread = message.message_thread_id.filter(|_| message.is_topic_message);
    Some(InboundEvent {
        dedupe_key,
        chat: chat_name(&message.chat, thread),
        sender: sender_of(&press.from),
        kind: InboundKind::Press(ButtonPress {
            id: press.id,
            value: press.data?,
            message_id: Some(message.message_id.to_string().into()),
            is_direct,
        }),
    })
}

/// Returns the message, or `None` if it has neither words nor files.
fn decode_message(message: TelegramMessage, bot: &BotIdentity) -> Option<InboundMessage> {
    let is_direct = message.chat.kind == "private";
    let (text, entities) = match message.text {
        Some(text) => (text, message.entities),
        None => (message.caption.unwrap_or_default(), message.caption_entities),
    };
    let replied = message.reply_to_message;
    let answers_bot = replied
        .as_ref()
        .is_some_and(|replied| replied.from.as_ref().is_some_and(|from| from.id == bot.id));
    let quoted = replied.filter(|_| !answers_bot);
    let quoted = quoted.and_then(|replied| replied.text.or(replied.caption)).map(Arc::from);
    let mentions = find_mentions(&text, &entities, bot);
    let is_addressed = answers_bot || !mentions.is_empty() || is_command(&text, &entities);
    let text = without(&text, &mentions);
    let mut files = Vec::new();
    // Telegram lists several sizes of a picture; the last is the largest.
    files.extend(
        message.photo.into_iter().next_back().map(|file| (file, "photo.jpg", "image/jpeg")),
    );
    files.extend(message.document.map(|file| (file, "document", "application/octet-stream")));
    files.extend(message.voice.map(|file| (file, "voice.ogg", "audio/ogg")));
    files.extend(message.audio.map(|file| (file, "audio.mp3", "audio/mpeg")));
    files.extend(message.video.map(|file| (file, "video.mp4", "video/mp4")));
    files.extend(message.video_note.map(|file| (file, "video.mp4", "video/mp4")));
    let files: Vec<InboundFile> = files
        .into_iter()
        .map(|(file, name, media_type)| InboundFile {
            id: file.file_id,
            name: file.file_name.unwrap_or_else(|| name.into()),
            media_type: Some(file.mime_type.unwrap_or_else(|| media_type.into())),
            size: file.file_size,
        })
        .collect();
    if text.trim().is_empty() && files.is_empty() {
        return None;
    }
    Some(InboundMessage {
        id: message.message_id.to_string().into(),
        text: text.trim().into(),
        is_direct,
        is_addressed,
        quoted,
        files,
        sent_at: Timestamp::from_second(message.date).unwrap_or(Timestamp::UNIX_EPOCH),
    })
}

fn sender_of(user: &User) -> Sender {
    let name = match (&user.last_name, &user.username) {
        (Some(last), _) => format!("{} {last}", user.first_name),
        (None, Some(username)) => format!("{} (@{username})", user.first_name),
        (None, None) => user.first_name.clone(),
    };
    Sender::new(user.id.to_string(), name.trim())
}

fn chat_name(chat: &Chat, thread: Option<i64>) -> Arc<str> {
    match thread {
        Some(thread) => format!("{}#{thread}", chat.id).into(),
        None => chat.id.to_string().into(),
    }
}

/// Returns whether the text begins with a command that names no other bot.
fn is_command(text: &str, entities: &[Entity]) -> bool {
    let commands = entities.iter().filter(|entity| entity.kind == "bot_command");
    let mut first = commands.filter(|entity| entity.offset == 0);
    first.next().and_then(|entity| byte_range(text, entity)).is_some_and(|range| {
        let command = &text[range];
        !command.contains('@')
    })
}

/// Returns the positions of mentions of the bot, including those appended to a command.
fn find_mentions(text: &str, entities: &[Entity], bot: &BotIdentity) -> Vec<Range<usize>> {
    let name = format!("@{}", bot.username);
    let mut found = Vec::new();
    for entity in entities {
        let Some(range) = byte_range(text, entity) else { continue };
        let words = &text[range.clone()];
        match entity.kind.as_str() {
            "mention" if words.eq_ignore_ascii_case(&name) => found.push(range),
            "text_mention" if entity.user.as_ref().is_some_and(|user| user.id == bot.id) => {
                found.push(range);
            }
            "bot_command" => {
                let Some(at) = words.find('@') else { continue };
                if words[at..].eq_ignore_ascii_case(&name) {
                    found.push(range.start + at..range.end);
                }
            }
            _ => {}
        }
    }
    found
}

fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        if range.start >= from {
            kept.push_str(&text[from..range.start]);
            from = range.end;
        }
    }
    kept.push_str(&text[from..]);
    kept
}

/// Returns the byte range of an entity, whose offsets count UTF-16 units.
fn byte_range(text: &str, entity: &Entity) -> Option<Range<usize>> {
    let end = entity.offset.checked_add(entity.length)?;
    let mut units = 0;
    let mut start = None;
    for (index, c) in text.char_indices() {
        if units == entity.offset {
            start = Some(index);
        }
        if units == end {
            return Some(start?..index);
        }
        units += c.len_utf16();
    }
    (units == end).then(|| start.map(|start| start..text.len()))?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bot() -> BotIdentity {
        BotIdentity { id: 99, username: "AdaBot".into(), can_read_all_group_messages: false }
    }

    fn group_message(extra: &Value) -> InboundEvent {
        let mut message = json!({
            "message_id": 5, "date": 1_700_000_000, "from": {"id": 7, "first_name": "Ada"},
            "chat": {"id": -100_123_456_789_i64, "type": "supergroup"},
        });
        message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        decode_update(&json!({"update_id": 1, "message": message}), &bot()).unwrap()
    }

    fn words(event: &InboundEvent) -> (&str, bool) {
        let InboundKind::Message(message) = &event.kind else { panic!("{event:?}") };
        (&message.text, message.is_addressed)
    }

    #[test]
    fn a_message_is_for_us_if_it_names_us_or_answers_us() {
        let plain = group_message(&json!({"text": "hello all"}));
        assert_eq!(words(&plain), ("hello all", false));
        assert_eq!(&*plain.chat, "-100123456789");
        let mention = group_message(&json!({
            "text": "👋 @adabot do it", "is_topic_message": true, "message_thread_id": 3,
            "entities": [{"type": "mention", "offset": 3, "length": 7}],
        }));
        assert_eq!(words(&mention), ("👋  do it", true));
        assert_eq!(&*mention.chat, "-100123456789#3");
        let other = group_message(&json!({
            "text": "@other hi", "entities": [{"type": "mention", "offset": 0, "length": 6}],
        }));
        assert!(!words(&other).1);
        let answer = group_message(&json!({
            "text": "yes", "reply_to_message": {"message_id": 2, "from": {"id": 99, "is_bot": true}, "text": "ok?"},
        }));
        assert_eq!(words(&answer), ("yes", true));
        let command = group_message(&json!({
            "text": "/stop@AdaBot now", "entities": [{"type": "bot_command", "offset": 0, "length": 12}],
        }));
        assert_eq!(words(&command), ("/stop now", true));
        let foreign = group_message(&json!({
            "text": "/stop@Other", "entities": [{"type": "bot_command", "offset": 0, "length": 11}],
        }));
        assert!(!words(&foreign).1);
    }

    #[test]
    fn an_album_is_one_message() {
        let part = |id: i64, extra: &Value| {
            let mut message = json!({
                "message_id": id, "from": {"id": 7}, "chat": {"id": 7, "type": "private"},
                "media_group_id": "a", "photo": [{"file_id": format!("f{id}")}],
            });
            message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"update_id": id, "message": message})
        };
        let updates = [
            part(1, &json!({})),
            part(2, &json!({"caption": "compare these"})),
            part(3, &json!({"media_group_id": "b"})),
            json!({"update_id": 4, "message": {
                "message_id": 4, "from": {"id": 7}, "chat": {"id": 7, "type": "private"}, "text": "and?",
            }}),
        ];
        let events = decode_updates(&updates, &bot());
        let read = |event: &InboundEvent| match &event.kind {
            InboundKind::Message(message) => (message.text.to_string(), message.files.len()),
            other => panic!("{other:?}"),
        };
        let read: Vec<_> = events.iter().map(read).collect();
        assert_eq!(
            read,
            [("compare these".to_owned(), 2), (String::new(), 1), ("and?".to_owned(), 0)]
        );
        assert_eq!(&*events[0].dedupe_key, "1");
    }

    #[test]
    fn files_presses_and_edits_are_read() {
        let picture = group_message(&json!({
            "caption": "look", "photo": [{"file_id": "s"}, {"file_id": "l", "file_size": 9}],
        }));
        let InboundKind::Message(message) = &picture.kind else { panic!() };
        assert_eq!((&*message.files[0].id, message.files[0].size), ("l", Some(9)));
        let press = json!({"update_id": 2, "callback_query": {
            "id": "q", "from": {"id": 7, "first_name": "Ada", "username": "ada"}, "data": "v",
            "message": {"message_id": 8, "chat": {"id": 7, "type": "private"}},
        }});
        let press = decode_update(&press, &bot()).unwrap();
        assert_eq!(&*press.sender.name, "Ada (@ada)");
        let InboundKind::Press(press) = press.kind else { panic!() };
        assert_eq!((&*press.value, press.is_direct), ("v", true));
        let edited = json!({"update_id": 3, "edited_message": {
            "message_id": 5, "from": {"id": 7}, "chat": {"id": 7, "type": "private"}, "text": "new",
        }});
        assert!(matches!(decode_update(&edited, &bot()).unwrap().kind, InboundKind::Edited(_)));
        let stopped = json!({"update_id": 4, "stopped_message_generation": {
            "chat": {"id": 7, "type": "private"}, "draft_id": 1,
        }});
        assert_eq!(decode_update(&stopped, &bot()).unwrap().kind, InboundKind::Stop);
        for nothing in [
            json!({"update_id": 5}),
            json!({"update_id": 5, "message": {"message_id": 1}}),
            json!({"update_id": 5, "message": {"message_id": 1, "chat": {"id": 7}, "from": {"id": 1, "is_bot": true}, "text": "x"}}),
            json!({"update_id": 5, "message": {"message_id": 1, "chat": {"id": 7}, "from": {"id": 1}}}),
            json!([1]),
            json!({"update_id": "5"}),
        ] {
            assert_eq!(decode_update(&nothing, &bot()), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn no_entity_breaks_the_text(
            text in "\\PC{0,20}",
            entities in prop::collection::vec((0_usize..30, 0_usize..30, prop::sample::select(vec!["mention", "bot_command", "text_mention", "bold"])), 0..4),
        ) {
            let entities: Vec<Value> = entities.iter().map(|(offset, length, kind)| {
                json!({"type": kind, "offset": offset, "length": length, "user": {"id": 99}})
            }).collect();
            let update = json!({"update_id": 1, "message": {
                "message_id": 1, "from": {"id": 7}, "chat": {"id": 7, "type": "private"},
                "text": text, "entities": entities,
            }});
            let _any = decode_update(&update, &bot());
        }
    }
}
