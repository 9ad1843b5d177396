//! The bus: durable messages between endpoints.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::BoxFuture;
use crate::model::{EndpointName, MessageId, bus::BusMessage};

/// Keeps messages until their receivers have them. An accepted message is synced: it survives a
/// power failure. A receiver gets the messages of one sender in the order in which they were
/// published.
pub trait Bus: Send + Sync + 'static {
    /// Queues messages in order. Waits while the queue is full, which slows down a sender that is
    /// too fast. The receipts resolve when the messages are synced.
    ///
    /// `watch` receives the ids of the messages that their receivers have taken. If it fills up,
    /// ids are dropped; messages are not.
    fn publish(
        &self,
        messages: Vec<BusMessage>,
        watch: Option<DeliveryNotifier>,
    ) -> BoxFuture<'_, PendingReceipts>;

    /// Stores a message to an endpoint that will never receive it as a dead letter at once, so that
    /// its text is kept and can be sent again.
    fn store_dead_letter(
        &self,
        message: BusMessage,
        reason: String,
    ) -> BoxFuture<'_, Result<(), PublishError>>;

    /// Makes the caller the receiver for a name. Waiting messages come first, oldest first.
    fn attach(&self, claim: AttachRequest)
    -> BoxFuture<'_, Result<Box<dyn BusInbox>, AttachError>>;

    /// Whether the name is protected by exactly this token; `false` if it has none.
    fn verify_token(&self, name: &str, token: &str) -> bool;

    /// Whether the name has a listener now, or ever had one.
    fn presence(&self, name: &EndpointName) -> Presence;

    /// Returns every endpoint with a listener, sorted by name; cheap.
    fn listeners(&self) -> Vec<(EndpointName, Uuid)>;

    /// Returns every endpoint that has a listener or waiting messages, sorted by name.
    fn endpoints(&self) -> Vec<EndpointState>;

    fn counts(&self) -> BusCounts;

    /// Returns the messages that wait for an endpoint or are not acknowledged by it, oldest first, at
    /// most `limit`. Takes none of them.
    fn peek<'a>(
        &'a self,
        name: &'a EndpointName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<QueuedMessage>, BusError>>;

    /// Returns messages that will not be delivered any more, newest first, at most `limit`, older
    /// than `before`.
    fn dead_letters(
        &self,
        before: Option<BusPosition>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeadLetter>, BusError>>;

    /// Publishes a dead letter again, as if it were a new message.
    fn resend(&self, dead: BusPosition) -> BoxFuture<'_, Result<Receipt, BusError>>;

    /// Deletes a dead letter.
    fn discard(&self, dead: BusPosition) -> BoxFuture<'_, Result<(), BusError>>;

    /// Waits until everything queued is on disk, and closes the bus.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The receiving end of a name. Dropping it returns the messages that are not acknowledged: the
/// next receiver gets them again, marked as redelivered.
pub trait BusInbox: Send {
    /// The name that was granted, with its suffix.
    fn endpoint(&self) -> &EndpointName;

    fn session(&self) -> Uuid;

    /// Whether the name was proven by its token.
    fn is_proven(&self) -> bool;

    /// Waits for at least one message and takes at most `limit`. Cancel safe: nothing is taken
    /// then.
    fn next(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<BusDelivery>, InboxError>>;

    /// Acknowledges messages. Never waits. If a crash loses an acknowledgement, the message is
    /// delivered again with the same id.
    fn ack(&mut self, taken: &[BusPosition]);

    /// Marks messages as written to a receiver that does not acknowledge: their senders are
    /// notified now, and the messages are done when [`BusInbox::ack`] acknowledges them.
    fn mark_written(&mut self, taken: &[BusPosition]);

    /// Turns a message that can never be handled into a dead letter.
    fn dead_letter(&mut self, taken: BusPosition, reason: &str);
}

/// Position of a message in the order of the whole bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BusPosition(pub u64);

/// A request to receive under a name.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    pub name: EndpointName,
    pub on_conflict: NameConflictPolicy,
    /// The name stays registered while it has no listener, so that messages to everyone wait for
    /// it.
    pub durable: bool,
    /// Protects a name that was never used, or proves the right to a protected name.
    pub token: Option<String>,
    pub claimant: Claimant,
}

impl AttachRequest {
    pub fn new(name: EndpointName) -> Self {
        Self {
            name,
            on_conflict: NameConflictPolicy::Displace,
            durable: false,
            token: None,
            claimant: Claimant::Owner,
        }
    }
}

/// The kind of process that asks for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// The process that runs the bus. It gets the name regardless of the record, and keeps it: its
    /// name can be neither displaced nor protected against it.
    Host,
    /// A program of the owner.
    Owner,
    /// A process of the agent that works for this session. It gets a name that was never used, or
    /// one that the same session has registered before, and it displaces no other listener.
    Agent(Arc<str>),
}

/// The action to take if the name already has a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameConflictPolicy {
    /// The new receiver gets the name; the old one is told.
    Displace,
    /// Take the first free one of `name`, `name-2`, `name-3` …
    Suffix,
    Refuse,
}

/// A message that a receiver has taken.
#[derive(Clone, Debug)]
pub struct BusDelivery {
    pub position: BusPosition,
    pub message: BusMessage,
    /// The message may have been delivered before: a receiver took it and did not acknowledge it.
    pub redelivered: bool,
}

/// Receives the ids of messages that their receivers have taken.
pub type DeliveryNotifier = mpsc::Sender<Vec<MessageId>>;

/// Confirms that a message is accepted and synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    pub presence: Presence,
    /// The same message was accepted before; it is delivered once.
    pub repeated: bool,
}

/// Whether a receiver is there; in a receipt, at the time when its message was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Listening,
    /// The message waits for a name that was registered before.
    Away,
    /// The message waits for a name that was never registered.
    NeverSeen,
}

/// The reason why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("{to} has {queued} messages waiting and takes no more until some are received")]
    Full { to: EndpointName, queued: usize },
    #[error("{queued} messages wait on the bus, and it takes no more until some are received")]
    BusFull { queued: usize },
    #[error("a message of {size} bytes is larger than the bus takes ({limit})")]
    TooLarge { size: usize, limit: usize },
    #[error(
        "the id {id} was used a moment ago for a message with another body; give each message an \
         id of its own"
    )]
    IdReused { id: MessageId },
    #[error("{0}")]
    Storage(BusError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    #[error("the name {0} is already taken")]
    Taken(EndpointName),
    #[error("the name {0} is protected by a token, and the given token is wrong")]
    WrongToken(EndpointName),
    #[error("the name {0} has been used without a token; protect a name that nobody has used")]
    TokenTooLate(EndpointName),
    #[error("the name {0} is not this agent's; an agent registers names that nobody has used")]
    NotGranted(EndpointName),
    #[error("every suffix of the name {0} is taken")]
    NoSuffix(EndpointName),
    #[error(transparent)]
    Bus(#[from] BusError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    #[error("another client has taken over the name {0}")]
    Displaced(EndpointName),
    #[error(transparent)]
    Bus(#[from] BusError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    #[error("the bus has been closed")]
    Closed,
    #[error("no such dead letter")]
    NotFound,
    #[error("{0} takes no more messages until some are received")]
    Full(EndpointName),
    #[error("{message}")]
    Failed { message: String },
}

/// A message in the queue of an endpoint.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    pub position: BusPosition,
    pub message: BusMessage,
    pub accepted_at: Timestamp,
    /// A listener has taken it and not acknowledged it yet.
    pub is_taken: bool,
}

/// A message that will not be delivered any more.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub position: BusPosition,
    pub to: EndpointName,
    pub message: BusMessage,
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    pub name: EndpointName,
    /// Session of the listener.
    pub session: Option<Uuid>,
    /// Messages that are not acknowledged yet.
    pub queued: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Counted since the bus was opened, like the four fields below.
    pub accepted: u64,
    pub repeated: u64,
    pub delivered: u64,
    pub refused: u64,
    pub expired: u64,
    /// The number at this moment, like the two fields below.
    pub listening: usize,
    pub queued: usize,
    pub dead: usize,
}

pub type Receipts = Vec<Result<Receipt, PublishError>>;

/// Resolves when the messages are synced, with one result per message, in order.
#[derive(Debug)]
pub struct PendingReceipts(oneshot::Receiver<Receipts>, usize);

impl PendingReceipts {
    /// The bus keeps the sender and answers for `messages` messages.
    pub fn new(messages: usize) -> (oneshot::Sender<Receipts>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver, messages))
    }
}

impl Future for PendingReceipts {
    type Output = Receipts;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let messages = self.1;
        Pin::new(&mut self.0).poll(cx).map(|answer| {
            let closed = Err(PublishError::Storage(BusError::Closed));
            answer.unwrap_or_else(|_bus_gone| vec![closed; messages])
        })
    }
}
