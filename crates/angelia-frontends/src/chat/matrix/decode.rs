//! Decodes room events into ours. Pure. An unreadable event is skipped and never stops later ones.

use std::sync::Arc;

use angelia_core::ports::{InboundFile, InboundMessage, Sender};
use jiff::Timestamp;
use serde_json::Value;

use super::rooms::{RepliedEvent, RoomMembers};

/// An event of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomEvent {
    pub id: Arc<str>,
    pub sender: Arc<str>,
    pub sent_at: Timestamp,
    pub kind: RoomEventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomEventKind {
    Message(RoomMessage),
    /// The message `of` now has this content.
    Edit {
        of: Arc<str>,
        new: RoomMessage,
    },
    Reaction {
        of: Arc<str>,
        key: Arc<str>,
    },
    Redaction {
        of: Arc<str>,
    },
    /// An encrypted message, which we cannot read.
    Encrypted,
    Member {
        person: Arc<str>,
        is_joined: bool,
        was_joined: bool,
    },
}

impl RoomEvent {
    /// Returns the person whose membership changed.
    pub(super) fn membership(&self) -> Option<&Arc<str>> {
        match &self.kind {
            RoomEventKind::Member { person, .. } => Some(person),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomMessage {
    /// The words, without the quotation that old clients put before them.
    pub text: String,
    html: Option<String>,
    /// The people whom the message mentions, or `None` if its client does not say.
    mentions: Option<Vec<String>>,
    pub(super) thread: Option<Arc<str>>,
    pub(super) reply_to: Option<Arc<str>>,
    pub(super) files: Vec<InboundFile>,
}

/// The bot's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MatrixBot {
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
}

/// Decodes an event. Returns `None` if it is of no interest.
pub fn decode_event(event: &Value) -> Option<RoomEvent> {
    let text = |name: &str| event[name].as_str().filter(|text| !text.is_empty());
    let content = &event["content"];
    let kind = match text("type")? {
        "m.room.message" => read_message_or_edit(content)?,
        "m.reaction" => {
            let relation = &content["m.relates_to"];
            let is_reaction = relation["rel_type"] == "m.annotation";
            let (of, key) = (relation["event_id"].as_str()?, relation["key"].as_str()?);
            is_reaction.then(|| RoomEventKind::Reaction { of: of.into(), key: key.into() })?
        }
        "m.room.redaction" => {
            let of = text("redacts").or_else(|| content["redacts"].as_str())?;
            RoomEventKind::Redaction { of: of.into() }
        }
        "m.room.encrypted" => RoomEventKind::Encrypted,
        "m.room.member" => {
            let before = [&event["unsigned"]["prev_content"], &event["prev_content"]];
            RoomEventKind::Member {
                person: text("state_key")?.into(),
                is_joined: content["membership"] == "join",
                was_joined: before.iter().any(|content| content["membership"] == "join"),
            }
        }
        _ => return None,
    };
    let sent_at = event["origin_server_ts"].as_i64().unwrap_or_default();
    Some(RoomEvent {
        id: text("event_id")?.into(),
        sender: text("sender")?.into(),
        sent_at: Timestamp::from_millisecond(sent_at).unwrap_or(Timestamp::UNIX_EPOCH),
        kind,
    })
}

fn read_message_or_edit(content: &Value) -> Option<RoomEventKind> {
    let relation = &content["m.relates_to"];
    if relation["rel_type"] == "m.replace" {
        let of = relation["event_id"].as_str()?.into();
        return Some(RoomEventKind::Edit { of, new: read_message(&content["m.new_content"])? });
    }
    read_message(content).map(RoomEventKind::Message)
}

/// Reads the content of a message. Returns `None` if it has neither words nor files, or is a bot's notice.
pub(super) fn read_message(content: &Value) -> Option<RoomMessage> {
    let text = |name: &str| content[name].as_str();
    let relation = &content["m.relates_to"];
    let is_thread = relation["rel_type"] == "m.thread";
    // In a thread, the reply relation may be only a fallback for old clients.
    let is_reply = relation["is_falling_back"] != true;
    let reply_to = relation["m.in_reply_to"]["event_id"].as_str().filter(|_| is_reply);
    let body = text("body")?;
    let (words, files) = match text("msgtype")? {
        "m.text" | "m.emote" => (body, Vec::new()),
        "m.image" | "m.file" | "m.audio" | "m.video" => {
            let name = text("filename").filter(|name| !name.is_empty());
            // If the file has a separate name, the body is its caption.
            let caption = name.filter(|name| *name != body).map_or("", |_| body);
            (caption, vec![read_file(content, name.unwrap_or(body))?])
        }
        _ => return None,
    };
    let words = if reply_to.is_some() { without_quotation(words) } else { words };
    let words = words.trim();
    if words.is_empty() && files.is_empty() {
        return None;
    }
    let mentions = content.get("m.mentions").and_then(Value::as_object).map(|mentions| {
        let people = mentions.get("user_ids").and_then(Value::as_array).into_iter().flatten();
        people.filter_map(|id| Some(id.as_str()?.to_owned())).collect()
    });
    Some(RoomMessage {
        text: words.to_owned(),
        html: text("formatted_body").map(str::to_owned),
        mentions,
        thread: relation["event_id"].as_str().filter(|_| is_thread).map(Into::into),
        reply_to: reply_to.map(Into::into),
        files,
    })
}

fn read_file(content: &Value, name: &str) -> Option<InboundFile> {
    let info = &content["info"];
    Some(InboundFile {
        id: content["url"].as_str().filter(|url| url.starts_with("mxc://"))?.into(),
        name: name.into(),
        media_type: info["mimetype"].as_str().map(Into::into),
        size: info["size"].as_u64(),
    })
}

/// Removes the quoted lines before an answer. Old clients quote the answered message in lines that begin with
/// `>`, followed by an empty line.
fn without_quotation(text: &str) -> &str {
    if !text.starts_with("> <") && !text.starts_with("> * <") {
        return text;
    }
    let mut rest = text;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest
}

impl RoomMessage {
    /// Returns whether the message mentions the bot.
    fn mentions(&self, bot: &MatrixBot) -> bool {
        if let Some(people) = &self.mentions {
            return people.iter().any(|id| **id == *bot.id);
        }
        let link = format!("https://matrix.to/#/{}", bot.id);
        self.html.as_ref().is_some_and(|html| html.contains(&link))
            || self.text.contains(&*bot.id)
            || without_name(&self.text, &bot.name).is_some()
    }

    /// Returns the words without the mention of the bot.
    fn words_for(&self, bot: &MatrixBot) -> String {
        if !self.mentions(bot) {
            return self.text.clone();
        }
        let local = bot.id.split(':').next().unwrap_or_default();
        let names = [&*bot.id, &*bot.name, local, local.trim_start_matches('@')];
        let found = names.iter().find_map(|name| without_name(&self.text, name));
        let text = found.unwrap_or(&self.text);
        text.replace(&*bot.id, "").trim().to_owned()
    }

    /// Converts the message for the host. `replied` is the message that it answers.
    pub(super) fn into_inbound(
        self,
        event: &RoomEvent,
        bot: &MatrixBot,
        members: &RoomMembers,
        replied: Option<&RepliedEvent>,
    ) -> InboundMessage {
        let answers_bot = replied.is_some_and(|replied| replied.sender == bot.id);
        let quoted = replied.filter(|_| !answers_bot).and_then(|replied| replied.text.clone());
        InboundMessage {
            id: Arc::clone(&event.id),
            text: self.words_for(bot).into(),
            is_direct: members.is_direct(&bot.id, &event.sender),
            is_addressed: answers_bot || self.mentions(bot),
            quoted: quoted.map(Into::into),
            files: self.files,
            sent_at: event.sent_at,
        }
    }
}

/// Returns the text after a leading name and its separator.
fn without_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let head = text.get(..name.len()).filter(|_| !name.is_empty())?;
    let rest = &text[name.len()..];
    let is_word = rest.chars().next().is_some_and(|c| c.is_alphanumeric() || "_-.".contains(c));
    (head.eq_ignore_ascii_case(name) && !is_word)
        .then(|| rest.trim_start_matches([':', ',']).trim_start())
}

/// Returns the person who sent an event.
pub(super) fn sender_of(id: &Arc<str>, members: &RoomMembers) -> Sender {
    Sender::new(Arc::clone(id), members.name_of(id))
}

/// Returns the address of a room, or of a thread in it.
pub(super) fn chat_name(room: &str, thread: Option<&str>) -> Arc<str> {
    match thread {
        Some(thread) => format!("{room}#{thread}").into(),
        None => room.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bot() -> MatrixBot {
        MatrixBot { id: "@ada-bot:x.org".into(), name: "Ada Bot".into() }
    }

    fn read(content: &Value) -> RoomMessage {
        let event = json!({
            "type": "m.room.message", "event_id": "$e", "sender": "@a:x.org", "content": content,
        });
        match decode_event(&event).unwrap().kind {
            RoomEventKind::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    fn words(content: &Value) -> (String, bool) {
        let message = read(content);
        (message.words_for(&bot()), message.mentions(&bot()))
    }

    #[test]
    fn a_message_is_for_us_if_it_names_us() {
        let said = |body: &str| json!({"msgtype": "m.text", "body": body});
        assert_eq!(words(&said("hello all")), ("hello all".to_owned(), false));
        for body in ["@ada-bot:x.org: do it", "Ada Bot do it", "ada bot, do it"] {
            assert_eq!(words(&said(body)), ("do it".to_owned(), true), "{body}");
        }
        assert!(!words(&said("Ada Bottom")).1 && !words(&said("ask Ada Bot")).1);
        let mut pill = said("please Ada Bot, do it");
        pill["formatted_body"] =
            "please <a href=\"https://matrix.to/#/@ada-bot:x.org\">Ada</a>".into();
        assert!(words(&pill).1);
        // An explicit list of mentions is complete.
        pill["m.mentions"] = json!({});
        assert!(!words(&pill).1);
        pill["m.mentions"] = json!({"user_ids": ["@other:x", "@ada-bot:x.org"]});
        assert_eq!(words(&pill), ("please Ada Bot, do it".to_owned(), true));
    }

    #[test]
    fn answers_threads_and_files_are_read() {
        let answer = read(&json!({
            "msgtype": "m.text", "body": "> <@b:x> what?\n> more\n\nthis",
            "m.relates_to": {"m.in_reply_to": {"event_id": "$q"}},
        }));
        assert_eq!((answer.text.as_str(), answer.reply_to.as_deref()), ("this", Some("$q")));
        let thread = read(&json!({
            "msgtype": "m.text", "body": "> a quotation",
            "m.relates_to": {
                "rel_type": "m.thread", "event_id": "$root", "is_falling_back": true,
                "m.in_reply_to": {"event_id": "$last"},
            },
        }));
        assert_eq!((thread.thread.as_deref(), thread.reply_to.as_deref()), (Some("$root"), None));
        assert_eq!(thread.text, "> a quotation");
        let file = read(&json!({
            "msgtype": "m.image", "body": "look", "filename": "a.png", "url": "mxc://x/y",
            "info": {"mimetype": "image/png", "size": 7},
        }));
        assert_eq!(file.text, "look");
        assert_eq!((&*file.files[0].name, file.files[0].size), ("a.png", Some(7)));
        let bare = json!({"msgtype": "m.file", "body": "a.txt", "url": "mxc://x/y"});
        assert_eq!((read(&bare).text.as_str(), &*read(&bare).files[0].name), ("", "a.txt"));
        for nothing in [
            json!({"msgtype": "m.notice", "body": "a bot speaks"}),
            json!({"msgtype": "m.text", "body": " "}),
            json!({"msgtype": "m.file", "body": "x", "url": "https://example.org/x"}),
            json!({"body": "x"}),
            json!({}),
            json!(7),
        ] {
            assert_eq!(read_message(&nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_decoder(body in "(> <)?[@a-z: >\n\\PC]{0,40}", name in "\\PC{0,6}") {
            let content = json!({
                "msgtype": "m.text", "body": body, "m.relates_to": {"m.in_reply_to": {"event_id": "$q"}},
            });
            if let Some(message) = read_message(&content) {
                let bot = MatrixBot { id: "@a:x".into(), name: name.into() };
                prop_assert!(message.words_for(&bot).len() <= body.len());
            }
        }
    }
}
