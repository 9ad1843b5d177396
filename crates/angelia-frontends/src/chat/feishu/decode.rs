//! Decodes platform events into ours. Pure. Unreadable events are skipped.

use std::{collections::BTreeMap, sync::Arc};

use angelia_core::ports::{ButtonPress, InboundEvent, InboundKind, InboundMessage, Sender};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    content::{read_content, replace_mentions},
    event::{ActionEvent, Envelope, EventMessage, MessageEvent, RecalledEvent},
};

/// The bot's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BotIdentity {
    pub open_id: Arc<str>,
    pub name: Arc<str>,
}

/// An event, and what is needed to complete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedEvent {
    pub event: InboundEvent,
    /// The message that this one answers.
    pub parent: Option<Arc<str>>,
    /// Whether the chat is direct, if the event says so.
    pub is_direct: Option<bool>,
}

/// Decodes the payload of a frame. Returns `None` if it is not for us.
pub fn decode_payload(payload: &[u8], bot: &BotIdentity) -> Option<DecodedEvent> {
    let Envelope { header, event } = serde_json::from_slice(payload).ok()?;
    match header.event_type.as_str() {
        "im.message.receive_v1" => decode_message(MessageEvent::deserialize(event).ok()?, bot),
        "im.message.recalled_v1" => {
            let RecalledEvent { message_id, chat_id } = RecalledEvent::deserialize(event).ok()?;
            let event = InboundEvent {
                dedupe_key: header.event_id,
                chat: chat_id,
                // The event names nobody; only the author of a message can recall it.
                sender: Sender::default(),
                kind: InboundKind::Deleted(message_id),
            };
            Some(DecodedEvent { event, parent: None, is_direct: None })
        }
        "card.action.trigger" => {
            decode_press(header.event_id, ActionEvent::deserialize(event).ok()?)
        }
        _ => None,
    }
}

fn decode_message(event: MessageEvent, bot: &BotIdentity) -> Option<DecodedEvent> {
    let MessageEvent { sender, message } = event;
    let sender_id = sender.sender_id.open_id.filter(|_| sender.sender_type == "user")?;
    let is_direct = message.chat_type == "p2p";
    let content = read_content(&message.message_id, &message.message_type, &message.content);
    let mut names = BTreeMap::from([("@_all".to_owned(), "@all".to_owned())]);
    let mut is_mentioned = false;
    for mention in &message.mentions {
        let is_bot = mention.id.open_id.as_deref() == Some(&*bot.open_id);
        is_mentioned |= is_bot;
        let shown = if is_bot { String::new() } else { format!("@{}", mention.name) };
        names.insert(mention.key.clone(), shown);
    }
    let text = replace_mentions(&content.text, &names);
    if text.trim().is_empty() && content.files.is_empty() {
        return None;
    }
    let event = InboundEvent {
        // A message is one event, however often it is delivered.
        dedupe_key: Arc::clone(&message.message_id),
        chat: chat_name(&message),
        sender: Sender::new(sender_id, ""),
        kind: InboundKind::Message(InboundMessage {
            id: Arc::clone(&message.message_id),
            text: text.trim().into(),
            is_direct,
            is_addressed: is_mentioned,
            quoted: None,
            files: content.files,
            sent_at: read_time(&message.create_time),
        }),
    };
    Some(DecodedEvent { event, parent: message.parent_id, is_direct: Some(is_direct) })
}

/// Returns the chat's name. A thread is named by its first message, because an answer needs that
/// id.
fn chat_name(message: &EventMessage) -> Arc<str> {
    if message.thread_id.as_deref().is_none_or(str::is_empty) {
        return Arc::clone(&message.chat_id);
    }
    let root = message.root_id.as_deref().filter(|root| !root.is_empty());
    format!("{}#{}", message.chat_id, root.unwrap_or(&message.message_id)).into()
}

fn decode_press(event_id: Arc<str>, event: ActionEvent) -> Option<DecodedEvent> {
    let ActionEvent { operator, action, context } = event;
    let event = InboundEvent {
        dedupe_key: Arc::clone(&event_id),
        chat: context.open_chat_id,
        sender: Sender::new(operator.open_id?, ""),
        kind: InboundKind::Press(ButtonPress {
            id: event_id,
            value: action.value.value,
            message_id: context.open_message_id,
            is_direct: action.value.direct.unwrap_or_default(),
        }),
    };
    Some(DecodedEvent { event, parent: None, is_direct: action.value.direct })
}

fn read_time(time: &Value) -> Timestamp {
    let number = match time {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    let time = number.and_then(|number| Timestamp::from_millisecond(number).ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bot() -> BotIdentity {
        BotIdentity { open_id: "ou_bot".into(), name: "Bot".into() }
    }

    fn decode(kind: &str, event: &Value) -> Option<DecodedEvent> {
        let envelope = json!({
            "schema": "2.0", "header": {"event_id": "e1", "event_type": kind, "app_id": "cli_a"}, "event": event,
        });
        decode_payload(envelope.to_string().as_bytes(), &bot())
    }

    fn message(kind: &str, content: &Value, extra: &Value) -> Option<DecodedEvent> {
        let mut message = json!({
            "message_id": "om_1", "chat_id": "oc_1", "chat_type": "group", "message_type": kind,
            "content": content.to_string(), "create_time": "1700000000123",
        });
        message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let sender =
            json!({"sender_id": {"open_id": "ou_7", "union_id": "on_7"}, "sender_type": "user"});
        decode("im.message.receive_v1", &json!({"sender": sender, "message": message}))
    }

    fn words(decoded: &DecodedEvent) -> (&str, bool) {
        let InboundKind::Message(message) = &decoded.event.kind else { panic!("{decoded:?}") };
        (&message.text, message.is_addressed)
    }

    fn mention(key: &str, id: &str, name: &str) -> Value {
        json!({"key": key, "id": {"open_id": id}, "name": name})
    }

    #[test]
    fn mentions_read_as_names_and_the_bot_hears_its_own() {
        let plain = message("text", &json!({"text": "hello all"}), &json!({})).unwrap();
        assert_eq!(words(&plain), ("hello all", false));
        assert_eq!((&*plain.event.chat, &*plain.event.dedupe_key), ("oc_1", "om_1"));
        let mentions = json!({"mentions": [
            mention("@_user_1", "ou_bot", "Bot"), mention("@_user_10", "ou_9", "Bob"),
        ]});
        let text = json!({"text": "@_user_1 ask @_user_10, not @_user_2 or @_all; a@b.c"});
        let mentioned = message("text", &text, &mentions).unwrap();
        assert_eq!(words(&mentioned), ("ask @Bob, not @_user_2 or @all; a@b.c", true));
        let other = json!({"mentions": [mention("@_user_1", "ou_9", "Bob")]});
        let other = message("text", &json!({"text": "@_user_1 hi"}), &other).unwrap();
        assert_eq!(words(&other), ("@Bob hi", false));
    }

    #[test]
    fn a_thread_is_named_by_its_first_message() {
        let begins = json!({"thread_id": "omt_1"});
        let begins = message("text", &json!({"text": "x"}), &begins).unwrap();
        assert_eq!(&*begins.event.chat, "oc_1#om_1");
        let inside = json!({"thread_id": "omt_1", "root_id": "om_0", "parent_id": "om_5"});
        let inside = message("text", &json!({"text": "x"}), &inside).unwrap();
        assert_eq!(&*inside.event.chat, "oc_1#om_0");
        assert_eq!(inside.parent.as_deref(), Some("om_5"));
        let answers = json!({"root_id": "om_0", "parent_id": "om_0"});
        let answers = message("text", &json!({"text": "x"}), &answers).unwrap();
        assert_eq!(&*answers.event.chat, "oc_1");
    }

    #[test]
    fn posts_and_files_are_read() {
        let post = json!({"title": "T", "content": [
            [{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " look "},
             {"tag": "a", "text": "here", "href": "http://h"}],
            [{"tag": "img", "image_key": "img_1"}],
            [{"tag": "code_block", "language": "PYTHON", "text": "x = 1\n"}],
        ]});
        let mentions = json!({"mentions": [mention("@_user_1", "ou_bot", "Bot")]});
        let post = message("post", &post, &mentions).unwrap();
        assert_eq!(words(&post), ("T\n look [here](http://h)\n\n\n```python\nx = 1\n```", true));
        let InboundKind::Message(read) = &post.event.kind else { panic!() };
        assert_eq!(&*read.files[0].id, "om_1/img_1/image");
        let languages =
            json!({"zh_cn": {"title": "", "content": [[{"tag": "text", "text": "你好"}]]}});
        let languages = message("post", &languages, &json!({})).unwrap();
        assert_eq!(words(&languages).0, "你好");
        let file = json!({"file_key": "file_1", "file_name": "notes.txt"});
        let file = message("file", &file, &json!({})).unwrap();
        let InboundKind::Message(read) = &file.event.kind else { panic!() };
        assert_eq!((&*read.files[0].id, &*read.files[0].name), ("om_1/file_1/file", "notes.txt"));
        for kind in ["image", "audio", "media"] {
            let content = json!({"image_key": "k", "file_key": "k"});
            assert!(message(kind, &content, &json!({})).is_some(), "{kind}");
        }
    }

    #[test]
    fn presses_and_recalls_are_read_and_the_rest_is_left_out() {
        let press = |value: &Value| {
            decode(
                "card.action.trigger",
                &json!({
                    "operator": {"open_id": "ou_7"}, "token": "c-1", "action": {"value": value, "tag": "button"},
                    "context": {"open_message_id": "om_9", "open_chat_id": "oc_1"},
                }),
            )
        };
        let pressed = press(&json!({"value": "o:1", "direct": true})).unwrap();
        assert_eq!(pressed.is_direct, Some(true));
        let InboundKind::Press(button) = &pressed.event.kind else { panic!() };
        assert_eq!((&*button.id, &*button.value, button.is_direct), ("e1", "o:1", true));
        assert_eq!(press(&json!({"value": "o:1"})).unwrap().is_direct, None);
        assert_eq!(press(&json!("foreign")), None);
        let recalled = json!({"message_id": "om_1", "chat_id": "oc_1"});
        let recalled = decode("im.message.recalled_v1", &recalled).unwrap();
        assert_eq!(recalled.event.kind, InboundKind::Deleted("om_1".into()));
        assert_eq!(decode("im.chat.updated_v1", &json!({})), None);
        assert_eq!(message("sticker", &json!({"file_key": "k"}), &json!({})), None);
        assert_eq!(message("text", &json!({"text": "  "}), &json!({})), None);
        assert_eq!(decode_payload(b"{", &bot()), None);
    }

    proptest! {
        #[test]
        fn no_mention_breaks_the_text(text in "[@_a-z0-9é ]{0,30}", keys in prop::collection::vec("@_[a-z0-9]{0,3}", 0..4)) {
            let mentions: Vec<Value> = keys.iter().map(|key| mention(key, "ou_9", "N")).collect();
            let _any = message("text", &json!({"text": text}), &json!({"mentions": mentions}));
        }
    }
}
