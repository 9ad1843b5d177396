//! Cached facts about rooms: their members, and the newest messages.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use super::decode::read_message;

/// The members of a room and their names.
#[derive(Clone, Debug, Default)]
pub(super) struct RoomMembers {
    joined: HashMap<Arc<str>, Arc<str>>,
}

impl RoomMembers {
    /// Reads the response to `joined_members`.
    pub(super) fn read(answer: &Value) -> Self {
        let joined = answer["joined"].as_object().into_iter().flatten();
        let name = |about: &Value| about["display_name"].as_str().unwrap_or_default().into();
        Self { joined: joined.map(|(id, about)| (id.as_str().into(), name(about))).collect() }
    }

    /// Returns whether the room contains only the bot and this person.
    pub(super) fn is_direct(&self, bot: &str, person: &str) -> bool {
        self.joined.len() == 2 && self.joined.contains_key(bot) && self.joined.contains_key(person)
    }

    /// Returns whether the room has exactly two members.
    pub(super) fn is_pair(&self) -> bool {
        self.joined.len() == 2
    }

    pub(super) fn name_of(&self, person: &str) -> Arc<str> {
        self.joined.get(person).cloned().unwrap_or_default()
    }
}

/// A message that another event refers to.
#[derive(Clone, Debug)]
pub(super) struct RepliedEvent {
    pub(super) sender: Arc<str>,
    /// The message's words, if it has any.
    pub(super) text: Option<String>,
    pub(super) thread: Option<Arc<str>>,
    pub(super) reply_to: Option<Arc<str>>,
}

impl RepliedEvent {
    /// Reads an event as the server returned it.
    pub(super) fn read(event: &Value) -> Option<Self> {
        let sender = event["sender"].as_str()?.into();
        let message = read_message(&event["content"]).unwrap_or_default();
        let text = Some(message.text).filter(|text| !text.is_empty());
        Some(Self { sender, text, thread: message.thread, reply_to: message.reply_to })
    }
}

/// A message that a person wrote.
#[derive(Clone, Debug)]
pub(super) struct KnownMessage {
    pub(super) id: Arc<str>,
    pub(super) chat: Arc<str>,
    pub(super) sender: Arc<str>,
}

/// The cache. Everything in it can be requested again, except the newest messages.
#[derive(Debug, Default)]
pub(super) struct RoomBook {
    members: HashMap<Arc<str>, Arc<RoomMembers>>,
    /// The newest messages of people. A deleted message no longer tells where it was.
    newest: VecDeque<KnownMessage>,
}

/// How many messages the cache holds.
const MAX_MESSAGES: usize = 1000;

/// How many rooms the cache holds.
const MAX_ROOMS: usize = 1000;

impl RoomBook {
    pub(super) fn members(&self, room: &str) -> Option<Arc<RoomMembers>> {
        self.members.get(room).cloned()
    }

    pub(super) fn put_members(&mut self, room: &Arc<str>, members: &Arc<RoomMembers>) {
        if self.members.len() >= MAX_ROOMS {
            self.members.clear();
        }
        self.members.insert(Arc::clone(room), Arc::clone(members));
    }

    pub(super) fn forget_members(&mut self, room: &str) {
        self.members.remove(room);
    }

    pub(super) fn note_message(&mut self, message: KnownMessage) {
        if self.newest.len() >= MAX_MESSAGES {
            self.newest.pop_front();
        }
        self.newest.push_back(message);
    }

    pub(super) fn find_message(&self, id: &str) -> Option<KnownMessage> {
        self.newest.iter().rev().find(|message| *message.id == *id).cloned()
    }
}
