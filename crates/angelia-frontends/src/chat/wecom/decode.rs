//! Decodes callbacks into events. Pure.

use std::sync::Arc;

use angelia_core::ports::{
    ButtonPress, InboundEvent, InboundFile, InboundKind, InboundMessage, Sender,
};
use jiff::Timestamp;
use serde_json::Value;

use super::frame::{BotFrame, EVENT_CALLBACK};

/// A callback that we handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callback {
    /// A message, which can be answered with its `req_id`.
    Message { event: InboundEvent, message_id: Arc<str>, req_id: Arc<str> },
    /// A press. For a few seconds, its card can be changed with its `req_id`.
    Press { event: InboundEvent, task_id: Arc<str>, req_id: Arc<str> },
    /// The same bot connected elsewhere, which ends this connection.
    Displaced,
}

/// Decodes a callback. Returns `None` if we do not handle it. `now` is the default time of messages.
pub fn decode_frame(frame: &BotFrame, now: Timestamp) -> Option<Callback> {
    let body = &frame.body;
    let req_id: Arc<str> = frame.headers.req_id.as_str().into();
    if frame.cmd == EVENT_CALLBACK {
        return decode_event(body, req_id);
    }
    let message_id = text_of(&body["msgid"])?;
    let place = Place::of(body)?;
    let mut content = Content::default();
    content.add(body);
    if place.is_group {
        content.text = strip_mention(&content.text).to_owned();
    }
    if content.text.trim().is_empty() && content.files.is_empty() {
        return None;
    }
    let quoted = body.get("quote").map(|quote| {
        let mut content = Content::default();
        content.add(quote);
        content.text
    });
    let message = InboundMessage {
        id: message_id.into(),
        text: content.text.trim().into(),
        is_direct: !place.is_group,
        // In groups, only messages that mention the bot arrive.
        is_addressed: place.is_group,
        quoted: quoted.filter(|text| !text.trim().is_empty()).map(Into::into),
        files: content.files,
        sent_at: read_time(&body["create_time"]).unwrap_or(now),
    };
    let event = place.event(format!("message-{message_id}"), InboundKind::Message(message));
    Some(Callback::Message { event, message_id: message_id.into(), req_id })
}

fn decode_event(body: &Value, req_id: Arc<str>) -> Option<Callback> {
    let event = &body["event"];
    match event["eventtype"].as_str()? {
        "disconnected_event" => Some(Callback::Displaced),
        "template_card_event" => {
            // The server nests these fields one level deeper than the types of its own library say.
            let nested = &event["template_card_event"];
            let field = |name: &str| text_of(&nested[name]).or_else(|| text_of(&event[name]));
            let task_id = field("task_id")?;
            let place = Place::of(body)?;
            let press = ButtonPress {
                // The answer to a press is a message to this person.
                id: place.user.into(),
                value: field("event_key")?.into(),
                message_id: Some(task_id.into()),
                is_direct: !place.is_group,
            };
            let key = text_of(&body["msgid"]).unwrap_or(&req_id);
            let event = place.event(format!("press-{key}"), InboundKind::Press(press));
            Some(Callback::Press { event, task_id: task_id.into(), req_id })
        }
        _ => None,
    }
}

/// The person who acted, and the chat.
struct Place<'a> {
    user: &'a str,
    chat: &'a str,
    is_group: bool,
}

impl<'a> Place<'a> {
    fn of(body: &'a Value) -> Option<Self> {
        let user = text_of(&body["from"]["userid"])?;
        let group = text_of(&body["chatid"]).filter(|_| body["chattype"] != "single");
        Some(Self { user, chat: group.unwrap_or(user), is_group: group.is_some() })
    }

    fn event(&self, dedupe_key: String, kind: InboundKind) -> InboundEvent {
        InboundEvent {
            dedupe_key: dedupe_key.into(),
            chat: self.chat.into(),
            sender: Sender::new(self.user, ""),
            kind,
        }
    }
}

#[derive(Default)]
struct Content {
    text: String,
    files: Vec<InboundFile>,
}

impl Content {
    fn add(&mut self, item: &Value) {
        match item["msgtype"].as_str().unwrap_or_default() {
            "text" => self.add_text(&item["text"]["content"]),
            "voice" => self.add_text(&item["voice"]["content"]),
            "image" => self.add_file(&item["image"], "image.jpg"),
            "file" => self.add_file(&item["file"], "file"),
            "video" => self.add_file(&item["video"], "video.mp4"),
            "mixed" => {
                let items = item["mixed"]["msg_item"].as_array();
                // The platform nests mixed messages only one level deep.
                for item in items.into_iter().flatten().filter(|one| one["msgtype"] != "mixed") {
                    self.add(item);
                }
            }
            _ => {}
        }
    }

    fn add_text(&mut self, text: &Value) {
        let Some(text) = text.as_str() else { return };
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    /// Adds a file. Its id contains its address and key. The platform states neither a name nor a
    /// size.
    fn add_file(&mut self, file: &Value, name: &str) {
        let Some(url) = text_of(&file["url"]) else { return };
        let key = text_of(&file["aeskey"]).unwrap_or_default();
        let id = format!("{key} {url}").into();
        self.files.push(InboundFile { id, name: name.into(), media_type: None, size: None });
    }
}

fn text_of(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Removes the mention at the beginning of a group message.
fn strip_mention(text: &str) -> &str {
    let trimmed = text.trim_start();
    match trimmed.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace).map_or("", |(_, words)| words),
        None => text,
    }
}

fn read_time(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_i64().filter(|seconds| *seconds > 0)?;
    Timestamp::from_second(seconds).ok()
}
