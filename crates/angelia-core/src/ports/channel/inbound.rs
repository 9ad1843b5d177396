//! Messages and button presses of people, as reported by adapters.

use std::sync::Arc;

use jiff::Timestamp;

use crate::ports::StoreFuture;

/// An event from a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundEvent {
    /// Identical for every delivery of the event, and unique among the events of the platform.
    pub dedupe_key: Arc<str>,
    /// The chat and its thread, as in an address.
    pub chat: Arc<str>,
    pub sender: Sender,
    pub kind: InboundKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundKind {
    Message(InboundMessage),
    /// The new version of an edited message, with the same id.
    Edited(InboundMessage),
    /// The sender deleted the message with this id.
    Deleted(Arc<str>),
    Press(ButtonPress),
    /// The person asked the platform to stop the answer that is being written.
    Stop,
}

/// The person who wrote the message or pressed the button.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Never a name, because people can change their names.
    pub id: Arc<str>,
    /// For people to read.
    pub name: Arc<str>,
    /// The ids of the person's roles in the chat, if the platform has roles.
    pub roles: Vec<Arc<str>>,
}

impl Sender {
    /// Returns a sender without roles.
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { id: id.into(), name: name.into(), roles: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundMessage {
    /// The platform's id for the message.
    pub id: Arc<str>,
    /// The text without the mention of the bot.
    pub text: Arc<str>,
    /// Whether this is a conversation with this person alone.
    pub is_direct: bool,
    /// Whether the message mentions the bot or replies to one of its messages.
    pub is_addressed: bool,
    /// The text of the message that this one replies to, if somebody else wrote that message.
    pub quoted: Option<Arc<str>>,
    pub files: Vec<InboundFile>,
    pub sent_at: Timestamp,
}

/// A file sent by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundFile {
    /// The platform's id for the file.
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub media_type: Option<Arc<str>>,
    /// In bytes, if the platform states it.
    pub size: Option<u64>,
}

/// A button press by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ButtonPress {
    /// The platform's id for the press, used to answer it.
    pub id: Arc<str>,
    /// The [value](super::Button::value) of the button.
    pub value: Arc<str>,
    /// The message with the button.
    pub message_id: Option<Arc<str>>,
    pub is_direct: bool,
}

/// A temporary way to answer in a chat, granted by the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRoute {
    /// Whatever the adapter needs to use the route. Treated like a secret.
    pub value: Arc<str>,
    pub expires_at: Timestamp,
}

/// Stores events for the host that processes them.
pub trait EventInbox: Send + Sync {
    /// Stores events and the cursor after them in one transaction. Skips events that are already
    /// known. The adapter may acknowledge the events once this has succeeded.
    fn accept(&self, events: Vec<InboundEvent>, cursor: Option<Arc<str>>) -> StoreFuture<'_, ()>;

    /// Stores the newest way to answer in a chat, so that a later process gets it through
    /// [`Channel::recall_routes`](super::Channel::recall_routes).
    fn keep_route<'a>(&'a self, _chat: &'a str, _route: ReplyRoute) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Reports that the connection works: the platform has answered, with or without events.
    fn note_alive(&self);
}
