//! Decodes frames of the stream into events for the chat host. Pure.

use std::sync::Arc;

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, ReplyRoute, Sender,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    cards::chat_of_card,
    frame::{CARD_TOPIC, MESSAGE_TOPIC, StreamFrame},
    writing::PERSON_PREFIX,
};

/// An event, and the route for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedEvent {
    pub event: InboundEvent,
    pub route: Option<ReplyRoute>,
}

/// Decodes a frame. Returns `None` if it has no event for us.
pub fn decode_frame(frame: &StreamFrame) -> Option<DecodedEvent> {
    if frame.kind != "CALLBACK" {
        return None;
    }
    let data = frame.read_data()?;
    match frame.headers.topic.as_str() {
        MESSAGE_TOPIC => decode_message(RobotMessage::deserialize(data).ok()?, frame),
        CARD_TOPIC => decode_press(CardPress::deserialize(data).ok()?, frame),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RobotMessage {
    msg_id: Option<String>,
    conversation_id: String,
    conversation_type: String,
    sender_id: Option<String>,
    sender_staff_id: Option<String>,
    sender_corp_id: Option<String>,
    chatbot_corp_id: Option<String>,
    chatbot_user_id: Option<String>,
    sender_nick: Option<String>,
    is_in_at_list: Option<bool>,
    #[serde(default)]
    msgtype: String,
    #[serde(default)]
    text: Value,
    #[serde(default)]
    content: Value,
    session_webhook: Option<String>,
    session_webhook_expired_time: Option<i64>,
    create_at: Option<i64>,
}

impl RobotMessage {
    /// Returns the sender's id. A staff id is meaningful only inside the robot's own organisation.
    fn sender_id(&self) -> Option<String> {
        let is_own = match (&self.sender_corp_id, &self.chatbot_corp_id) {
            (Some(sender), Some(robot)) => sender == robot,
            _ => true,
        };
        let staff = self.sender_staff_id.clone().filter(|id| is_own && !id.is_empty());
        staff.or_else(|| self.sender_id.clone()).filter(|id| !id.is_empty())
    }
}

fn decode_message(message: RobotMessage, frame: &StreamFrame) -> Option<DecodedEvent> {
    let sender_id = message.sender_id()?;
    let is_direct = message.conversation_type == "1";
    let chat: Arc<str> = if is_direct {
        format!("{PERSON_PREFIX}{sender_id}").into()
    } else {
        message.conversation_id.as_str().into()
    };
    let key = message.msg_id.clone().unwrap_or_else(|| frame.headers.message_id.clone());
    if key.is_empty() || message.conversation_id.is_empty() {
        return None;
    }
    let mut words = Words::default();
    words.read(&message);
    let text = words.text.trim();
    if text.is_empty() && words.files.is_empty() {
        return None;
    }
    let sent_at = message.create_at.and_then(|at| Timestamp::from_millisecond(at).ok());
    let route = read_route(&message);
    let kind = InboundKind::Message(InboundMessage {
        id: key.as_str().into(),
        text: text.into(),
        is_direct,
        // A group delivers only messages that mention the robot.
        is_addressed: message.is_in_at_list.unwrap_or(true),
        quoted: quoted_text(&message),
        files: words.files,
        sent_at: sent_at.unwrap_or(Timestamp::UNIX_EPOCH),
    });
    let sender = Sender::new(sender_id, message.sender_nick.unwrap_or_default());
    let event = InboundEvent { dedupe_key: key.into(), chat, sender, kind };
    Some(DecodedEvent { event, route })
}

/// Returns the route for an answer. A route without an expiry time is ignored, because we could not
/// tell when it stops working.
fn read_route(message: &RobotMessage) -> Option<ReplyRoute> {
    let value = message.session_webhook.as_deref().filter(|url| !url.is_empty())?;
    let expires_at = Timestamp::from_millisecond(message.session_webhook_expired_time?).ok()?;
    Some(ReplyRoute { value: value.into(), expires_at })
}

/// Returns the text that this message answers, unless the robot wrote it.
fn quoted_text(message: &RobotMessage) -> Option<Arc<str>> {
    let replied = &message.text["repliedMsg"];
    let from = replied["senderId"].as_str();
    if from.is_some() && from == message.chatbot_user_id.as_deref() {
        return None;
    }
    let text = replied["content"]["text"].as_str().map(str::trim)?;
    (!text.is_empty()).then(|| text.into())
}

/// The text and files of a message.
#[derive(Default)]
struct Words {
    text: String,
    files: Vec<InboundFile>,
}

impl Words {
    fn read(&mut self, message: &RobotMessage) {
        let content = &message.content;
        match message.msgtype.as_str() {
            "text" => self.text.push_str(message.text["content"].as_str().unwrap_or_default()),
            "picture" => self.add_file(content, "picture.jpg", "image/jpeg"),
            "audio" => {
                self.text.push_str(content["recognition"].as_str().unwrap_or_default());
                self.add_file(content, "voice.amr", "audio/amr");
            }
            "video" => self.add_file(content, "video.mp4", "video/mp4"),
            "file" => self.add_file(content, "file", "application/octet-stream"),
            "richText" => {
                for part in content["richText"].as_array().into_iter().flatten() {
                    self.text.push_str(part["text"].as_str().unwrap_or_default());
                    self.add_file(part, "picture.jpg", "image/jpeg");
                }
            }
            _ => {}
        }
    }

    fn add_file(&mut self, content: &Value, name: &str, media_type: &str) {
        let Some(code) = content["downloadCode"].as_str().filter(|code| !code.is_empty()) else {
            return;
        };
        let given = content["fileName"].as_str().filter(|name| !name.is_empty());
        self.files.push(InboundFile {
            id: code.into(),
            name: given.unwrap_or(name).into(),
            media_type: given.is_none().then(|| media_type.into()),
            size: None,
        });
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CardPress {
    out_track_id: String,
    user_id: String,
    /// JSON in a string.
    content: String,
}

fn decode_press(press: CardPress, frame: &StreamFrame) -> Option<DecodedEvent> {
    let content: Value = serde_json::from_str(&press.content).ok()?;
    let value = content["cardPrivateData"]["actionIds"][0].as_str()?;
    let chat = chat_of_card(&press.out_track_id)?;
    let key = &frame.headers.message_id;
    if press.user_id.is_empty() || key.is_empty() {
        return None;
    }
    let kind = InboundKind::Press(ButtonPress {
        // The answer goes to the person who pressed.
        id: press.user_id.as_str().into(),
        value: value.into(),
        message_id: Some(press.out_track_id.as_str().into()),
        is_direct: chat.starts_with(PERSON_PREFIX),
    });
    let sender = Sender::new(press.user_id, "");
    let dedupe_key = format!("press:{key}").into();
    let event = InboundEvent { dedupe_key, chat: chat.into(), sender, kind };
    Some(DecodedEvent { event, route: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::cards::card_id, *};

    fn frame(topic: &str, data: &Value) -> StreamFrame {
        let headers = super::super::frame::FrameHeaders {
            topic: topic.to_owned(),
            message_id: "f1".to_owned(),
        };
        StreamFrame { kind: "CALLBACK".to_owned(), headers, data: data.to_string() }
    }

    fn read(extra: &Value) -> DecodedEvent {
        let mut data = json!({
            "msgId": "m1", "conversationId": "cid1==", "conversationType": "2",
            "senderId": "$:x", "senderStaffId": "ada", "senderNick": "Ada", "isInAtList": true,
            "senderCorpId": "ding1", "chatbotCorpId": "ding1", "chatbotUserId": "$:bot",
            "msgtype": "text", "text": {"content": " hello "}, "createAt": 1_700_000_000_000_i64,
        });
        data.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        decode_frame(&frame(MESSAGE_TOPIC, &data)).unwrap()
    }

    fn words(decoded: &DecodedEvent) -> &InboundMessage {
        let InboundKind::Message(message) = &decoded.event.kind else { panic!("{decoded:?}") };
        message
    }

    #[test]
    fn a_group_and_a_person_have_their_addresses() {
        let group = read(&json!({}));
        assert_eq!((&*group.event.chat, &*group.event.dedupe_key), ("cid1==", "m1"));
        assert_eq!((&*group.event.sender.id, &*words(&group).text), ("ada", "hello"));
        assert!(words(&group).is_addressed && !words(&group).is_direct && group.route.is_none());
        let direct = read(&json!({
            "conversationType": "1", "sessionWebhook": "https://x/?session=1",
            "sessionWebhookExpiredTime": 1_700_000_000_000_i64,
        }));
        assert_eq!(&*direct.event.chat, "user:ada");
        let route = direct.route.unwrap();
        assert_eq!(
            (&*route.value, route.expires_at.as_second()),
            ("https://x/?session=1", 1_700_000_000)
        );
    }

    #[test]
    fn the_staff_id_of_another_organisation_does_not_count() {
        let outsider = read(&json!({"senderCorpId": "ding2", "conversationType": "1"}));
        assert_eq!((&*outsider.event.sender.id, &*outsider.event.chat), ("$:x", "user:$:x"));
        let nobody = read(&json!({"senderStaffId": null}));
        assert_eq!(&*nobody.event.sender.id, "$:x");
    }

    #[test]
    fn files_quotes_and_spoken_words_are_read() {
        let picture = read(&json!({"msgtype": "picture", "content": {"downloadCode": "c1"}}));
        assert_eq!((&*words(&picture).files[0].id, &*words(&picture).text), ("c1", ""));
        let file = read(
            &json!({"msgtype": "file", "content": {"downloadCode": "c2", "fileName": "a.pdf"}}),
        );
        assert_eq!(&*words(&file).files[0].name, "a.pdf");
        let audio = read(
            &json!({"msgtype": "audio", "content": {"downloadCode": "c3", "recognition": "do it"}}),
        );
        assert_eq!((&*words(&audio).text, words(&audio).files.len()), ("do it", 1));
        let rich = read(&json!({"msgtype": "richText", "content": {"richText": [
            {"text": "look "}, {"type": "picture", "downloadCode": "c4"}, {"text": "here"},
        ]}}));
        assert_eq!((&*words(&rich).text, words(&rich).files.len()), ("look here", 1));
        let quote = read(&json!({"text": {"content": "this", "repliedMsg": {
            "senderId": "$:y", "content": {"text": "what they said"},
        }}}));
        assert_eq!(words(&quote).quoted.as_deref(), Some("what they said"));
        let own = read(&json!({"text": {"content": "this", "repliedMsg": {
            "senderId": "$:bot", "content": {"text": "my words"},
        }}}));
        assert_eq!(words(&own).quoted, None);
    }

    #[test]
    fn a_press_names_its_person_and_its_chat() {
        let content = json!({"cardPrivateData": {"actionIds": ["o:1"], "params": {}}}).to_string();
        let press = |track: &str| {
            decode_frame(&frame(
                CARD_TOPIC,
                &json!({
                    "outTrackId": track, "userId": "ada", "corpId": "ding1", "content": content, "extension": "{}",
                }),
            ))
        };
        let pressed = press(&card_id("user:ada", "approval-1")).unwrap().event;
        assert_eq!((&*pressed.chat, &*pressed.sender.id), ("user:ada", "ada"));
        assert_eq!(&*pressed.dedupe_key, "press:f1");
        let InboundKind::Press(pressed) = pressed.kind else { panic!() };
        assert_eq!((&*pressed.value, pressed.is_direct), ("o:1", true));
        assert_eq!(&*press(&card_id("cid1==", "a")).unwrap().event.chat, "cid1==");
        assert_eq!(press("somebody-else's"), None);
    }

    #[test]
    fn anything_else_is_nothing() {
        for data in [json!({}), json!([1]), json!({"conversationId": 1, "conversationType": "1"})] {
            for topic in [MESSAGE_TOPIC, CARD_TOPIC, "/other"] {
                assert_eq!(decode_frame(&frame(topic, &data)), None, "{topic} {data}");
            }
        }
        let silent = json!({
            "msgId": "m", "conversationId": "c", "conversationType": "2", "senderStaffId": "ada",
            "msgtype": "text", "text": {"content": "  "},
        });
        assert_eq!(decode_frame(&frame(MESSAGE_TOPIC, &silent)), None);
    }
}
