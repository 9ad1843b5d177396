//! Rooms, with their members and events.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{BOT, BOT_NAME, ServerState, html::visible_text};

/// A room.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The membership of each person.
    pub(super) members: BTreeMap<String, String>,
    /// The events, each with its position among the events of all rooms.
    pub(super) events: Vec<(u64, Value)>,
    pub(super) is_encrypted: bool,
    /// The position at which the bot became a member.
    pub(super) joined_at: u64,
    /// Whether the bot is typing, according to its last request.
    pub(super) is_bot_typing: bool,
}

/// A message from the bot in its current form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEvent {
    pub id: String,
    /// The text without its formatting.
    pub text: String,
    /// `m.text`, `m.notice` …
    pub kind: String,
    /// The bot's own reactions.
    pub reactions: Vec<String>,
    pub reply_to: Option<String>,
    pub thread: Option<String>,
    /// The name and the address of a file.
    pub file: Option<(String, String)>,
    pub edits: usize,
}

impl ShownEvent {
    /// Returns the lines of the text that begin with a number emoji, as people read them: the emoji, and the
    /// words after it. Empty until the bot has reacted with all of these emojis, because there is nothing to
    /// press before.
    pub fn choices(&self) -> Vec<(String, String)> {
        let lines = self.text.lines().filter_map(|line| {
            let end = line.find(KEYCAP)? + KEYCAP.len_utf8();
            let (key, words) = line.split_at(end);
            key.starts_with(|c: char| c.is_ascii_digit())
                .then(|| (key.to_owned(), words.trim().to_owned()))
        });
        let lines: Vec<(String, String)> = lines.collect();
        if lines.iter().all(|(key, _)| self.reactions.contains(key)) { lines } else { Vec::new() }
    }
}

/// The last character of a number emoji.
const KEYCAP: char = '\u{20e3}';

/// Returns the display name of a person.
pub(super) fn display_name(user: &str) -> String {
    if user == BOT {
        return BOT_NAME.to_owned();
    }
    let name = user.trim_start_matches('@').split(':').next().unwrap_or_default();
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl ServerState {
    /// Creates a room. Its first member is the creator.
    pub(super) fn add_room(&mut self, room: &str, members: &[&str]) {
        self.rooms.insert(room.to_owned(), Room::default());
        for member in members {
            self.set_member(room, member, member, "join");
        }
    }

    pub(super) fn set_member(&mut self, room: &str, sender: &str, user: &str, membership: &str) {
        let content = json!({"membership": membership, "displayname": display_name(user)});
        self.add_event(room, sender, "m.room.member", content, Some(user));
        let position = self.position;
        let Some(room) = self.rooms.get_mut(room) else { return };
        room.members.insert(user.to_owned(), membership.to_owned());
        if user == BOT && membership == "join" {
            room.joined_at = position;
        }
    }

    pub(super) fn add_event(
        &mut self,
        room: &str,
        sender: &str,
        kind: &str,
        content: Value,
        state_key: Option<&str>,
    ) -> String {
        self.position += 1;
        let id = format!("$event-{}_{}", self.position, room.len());
        let mut event = json!({
            "event_id": id, "type": kind, "sender": sender, "unsigned": {},
            "origin_server_ts": unix_now_ms(),
        });
        event["content"] = content;
        if let Some(key) = state_key {
            event["state_key"] = key.into();
        }
        let position = self.position;
        if let Some(room) = self.rooms.get_mut(room) {
            room.events.push((position, event));
        }
        id
    }

    /// Removes the content of an event, as every server does.
    pub(super) fn redact(&mut self, room: &str, sender: &str, target: &str) -> String {
        let content = json!({"redacts": target});
        let id = self.add_event(room, sender, "m.room.redaction", content, None);
        let Some(room) = self.rooms.get_mut(room) else { return id };
        for (_, event) in &mut room.events {
            if event["event_id"] == id {
                event["redacts"] = target.into();
            } else if event["event_id"] == target {
                event["content"] = json!({});
            }
        }
        id
    }
}

impl Room {
    pub(super) fn has_bot(&self) -> bool {
        self.members.get(BOT).is_some_and(|membership| membership == "join")
    }

    pub(super) fn find(&self, id: &str) -> Option<&Value> {
        self.events.iter().map(|(_, event)| event).find(|event| event["event_id"] == id)
    }

    /// Returns the edits of an event by its original sender.
    pub(super) fn edits_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Value> {
        let sender = self.find(id).map(|event| &event["sender"]);
        self.events.iter().map(|(_, event)| event).filter(move |event| {
            let relation = &event["content"]["m.relates_to"];
            relation["rel_type"] == "m.replace"
                && relation["event_id"] == id
                && Some(&event["sender"]) == sender
        })
    }

    /// Returns an event bundled with its newest edit, like servers do.
    pub(super) fn bundled(&self, id: &str) -> Option<Value> {
        let mut event = self.find(id)?.clone();
        if let Some(edit) = self.edits_of(id).last() {
            event["unsigned"]["m.relations"] = json!({"m.replace": edit});
        }
        Some(event)
    }

    pub(super) fn bot_messages(&self) -> Vec<ShownEvent> {
        let own = self.events.iter().map(|(_, event)| event).filter(|event| event["sender"] == BOT);
        let sent = own.filter(|event| {
            event["type"] == "m.room.message"
                && event["content"]["m.relates_to"]["rel_type"] != "m.replace"
                && event["content"]["msgtype"].is_string()
        });
        sent.map(|event| self.describe(event, true)).collect()
    }

    pub(super) fn first_version(&self, id: &str) -> Option<ShownEvent> {
        Some(self.describe(self.find(id)?, false))
    }

    fn describe(&self, event: &Value, is_newest: bool) -> ShownEvent {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&event["event_id"]);
        let edits: Vec<&Value> = self.edits_of(&id).collect();
        let edits = if is_newest { edits } else { Vec::new() };
        let sent = &event["content"];
        let now = edits.last().map_or(sent, |edit| &edit["content"]["m.new_content"]);
        let relation = &sent["m.relates_to"];
        let is_reaction = |event: &&Value| {
            let relation = &event["content"]["m.relates_to"];
            event["sender"] == BOT
                && event["type"] == "m.reaction"
                && relation["event_id"] == id.as_str()
        };
        let reactions = self.events.iter().map(|(_, event)| event).filter(is_reaction);
        let is_thread = relation["rel_type"] == "m.thread";
        let is_reply = relation["is_falling_back"] != true;
        ShownEvent {
            text: shown_text(now),
            kind: text(&now["msgtype"]),
            reactions: reactions.map(|one| text(&one["content"]["m.relates_to"]["key"])).collect(),
            reply_to: relation["m.in_reply_to"]["event_id"]
                .as_str()
                .filter(|_| is_reply)
                .map(str::to_owned),
            thread: relation["event_id"].as_str().filter(|_| is_thread).map(str::to_owned),
            file: now["url"].as_str().map(|url| (text(&now["body"]), url.to_owned())),
            edits: edits.len(),
            id,
        }
    }
}

/// Returns the text of a message as shown by a client.
fn shown_text(content: &Value) -> String {
    let html = content["formatted_body"].as_str();
    let html = html.filter(|_| content["format"] == "org.matrix.custom.html");
    match html.map(visible_text) {
        Some(Ok(text)) => text,
        Some(Err(why)) => format!("(clients show this in their own way: {why})"),
        None => content["body"].as_str().unwrap_or_default().to_owned(),
    }
}

pub(super) fn unix_now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
