//! Messages and presses of people, as adapters report them.

use std::sync::Arc;

use jiff::Timestamp;

use crate::ports::StoreFuture;

/// An event of a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundEvent {
    /// The same for every delivery of the event, and for no other event of the platform.
    pub dedupe_key: Arc<str>,
    /// The chat with its thread, as in an address.
    pub chat: Arc<str>,
    pub sender: Sender,
    pub kind: InboundKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundKind {
    Message(InboundMessage),
    /// A message with this id reads so now.
    Edited(InboundMessage),
    /// Its sender has deleted the message with this id.
    Deleted(Arc<str>),
    Press(ButtonPress),
    /// The person has asked the platform to stop the answer that is being written.
    Stop,
}

/// The person who has written or pressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Never a name, which people can change.
    pub id: Arc<str>,
    /// For people to read.
    pub name: Arc<str>,
    /// The ids of the roles that the person has in the chat, where the platform has roles.
    pub roles: Vec<Arc<str>>,
}

impl Sender {
    /// Somebody without roles.
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { id: id.into(), name: name.into(), roles: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundMessage {
    /// The platform's id of the message.
    pub id: Arc<str>,
    /// Without the mention of the bot.
    pub text: Arc<str>,
    /// A conversation with this person alone.
    pub is_direct: bool,
    /// It mentions the bot, or answers one of the bot's messages.
    pub is_addressed: bool,
    /// The text of the message that this one answers, if it is another one's.
    pub quoted: Option<Arc<str>>,
    pub files: Vec<InboundFile>,
    pub sent_at: Timestamp,
}

/// A file that somebody has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundFile {
    /// The platform's id of the file.
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub media_type: Option<Arc<str>>,
    /// In bytes, if the platform says it.
    pub size: Option<u64>,
}

/// A button that somebody has pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ButtonPress {
    /// The platform's id of the press, for the answer to it.
    pub id: Arc<str>,
    /// The [value](super::Button::value) of the button.
    pub value: Arc<str>,
    /// The message with the button.
    pub message_id: Option<Arc<str>>,
    pub is_direct: bool,
}

/// A way to answer in a chat that its platform has given us, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRoute {
    /// Whatever the adapter needs to use it. It is kept like a secret.
    pub value: Arc<str>,
    pub expires_at: Timestamp,
}

/// Stores events for the host that works on them.
pub trait EventInbox: Send + Sync {
    /// Stores events and the cursor behind them in one transaction. Events that are known already
    /// are left out. The adapter may acknowledge them when this has succeeded.
    fn accept(&self, events: Vec<InboundEvent>, cursor: Option<Arc<str>>) -> StoreFuture<'_, ()>;

    /// Keeps the newest way to answer in a chat, over restarts too: a later process gets it by
    /// [`Channel::recall_routes`](super::Channel::recall_routes).
    fn keep_route<'a>(&'a self, _chat: &'a str, _route: ReplyRoute) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// The connection works: the platform has answered, with or without events.
    fn note_alive(&self);
}
