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

/// Keeps messages until their receivers have them. An accepted message is synced to disk, so it survives a
/// power failure. A receiver gets the messages of one sender in the order in which they were published.
pub trait Bus: Send + Sync + 'static {
    /// Queues messages in order. Waits while the queue is full, which slows down fast senders. The receipts
    /// resolve when the messages are synced.
    ///
    /// `watch` receives the ids of messages that their receivers have taken. If it fills up, ids are dropped,
    /// but messages are not.
    fn publish(
        &self,
        messages: Vec<BusMessage>,
        watch: Option<DeliveryNotifier>,
    ) -> BoxFuture<'_, PendingReceipts>;

    /// Stores a message that its endpoint will never receive as a dead letter right away, so that its text is
    /// kept and can be resent.
    fn store_dead_letter(
        &self,
        message: BusMessage,
        reason: String,
    ) -> BoxFuture<'_, Result<(), PublishError>>;

    /// Makes the caller the receiver for a name. Waiting messages are delivered first, oldest first.
    fn attach(&self, claim: AttachRequest)
    -> BoxFuture<'_, Result<Box<dyn BusInbox>, AttachError>>;

    /// Returns whether the name is protected by exactly this token; `false` if it has no token.
    fn verify_token(&self, name: &str, token: &str) -> bool;

    /// Returns whether the name has a listener now, or ever had one.
    fn presence(&self, name: &EndpointName) -> Presence;

    /// Returns every endpoint with a listener, sorted by name. Cheap.
    fn listeners(&self) -> Vec<(EndpointName, Uuid)>;

    /// Returns every endpoint that has a listener or waiting messages, sorted by name.
    fn endpoints(&self) -> Vec<EndpointState>;

    fn counts(&self) -> BusCounts;

    /// Returns up to `limit` messages that wait for an endpoint or that it has not acknowledged, oldest
    /// first. Does not take them.
    fn peek<'a>(
        &'a self,
        name: &'a EndpointName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<QueuedMessage>, BusError>>;

    /// Returns up to `limit` undeliverable messages that are older than `before`, newest first.
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

/// The receiving end of a name. Dropping it returns the unacknowledged messages: the next receiver gets them
/// again, marked as redelivered.
pub trait BusInbox: Send {
    /// Returns the granted name, including its suffix.
    fn endpoint(&self) -> &EndpointName;

    fn session(&self) -> Uuid;

    /// Returns whether the name was proven with its token.
    fn is_proven(&self) -> bool;

    /// Waits for at least one message and takes up to `limit`. Cancel safe: a cancelled call takes nothing.
    fn next(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<BusDelivery>, InboxError>>;

    /// Acknowledges messages without waiting. If a crash loses an acknowledgement, the message is delivered
    /// again with the same id.
    fn ack(&mut self, taken: &[BusPosition]);

    /// Marks messages as written to a receiver that does not acknowledge. Their senders are notified now, but
    /// the messages are done only when [`BusInbox::ack`] acknowledges them.
    fn mark_written(&mut self, taken: &[BusPosition]);

    /// Turns a message that can never be handled into a dead letter.
    fn dead_letter(&mut self, taken: BusPosition, reason: &str);
}

/// Position of a message in the overall order of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BusPosition(pub u64);

/// A request to receive under a name.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    pub name: EndpointName,
    pub on_conflict: NameConflictPolicy,
    /// The name stays registered while it has no listener, so that broadcasts wait for it.
    pub durable: bool,
    /// Protects a name that was never used before, or proves the right to a protected name.
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

/// The kind of process that requests a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// The process that runs the bus. It always gets the name, whatever is recorded, and keeps it: its name
    /// can be neither taken from it nor protected against it.
    Host,
    /// A program of the owner.
    Owner,
    /// A process of the agent that works for this session. It gets a name that was never used, or one that
    /// the same session registered before, and never displaces another listener.
    Agent(Arc<str>),
}

/// What to do if the name already has a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameConflictPolicy {
    /// Give the name to the new receiver and notify the old one.
    Displace,
    /// Use the first free name among `name`, `name-2`, `name-3` …
    Suffix,
    Refuse,
}

/// A message that a receiver has taken.
#[derive(Clone, Debug)]
pub struct BusDelivery {
    pub position: BusPosition,
    pub message: BusMessage,
    /// Whether the message may have been delivered before: a receiver took it without acknowledging it.
    pub redelivered: bool,
}

/// Receives the ids of messages that their receivers have taken.
pub type DeliveryNotifier = mpsc::Sender<Vec<MessageId>>;

/// Confirms that a message is accepted and synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    pub presence: Presence,
    /// The same message was accepted before. It is delivered only once.
    pub repeated: bool,
}

/// Whether there is a receiver. In a receipt: at the time when the message was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Listening,
    /// The message waits for a name that was registered before.
    Away,
    /// The message waits for a name that was never registered.
    NeverSeen,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("{to} has {queued} messages waiting and accepts no more until some are received")]
    Full { to: EndpointName, queued: usize },
    #[error("{queued} messages wait on the bus, and it accepts no more until some are received")]
    BusFull { queued: usize },
    #[error("a message of {size} bytes is larger than the bus accepts ({limit})")]
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
    #[error("{0} accepts no more messages until some are received")]
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
    /// Whether a listener has taken the message, but not acknowledged it yet.
    pub is_taken: bool,
}

/// A message that can no longer be delivered.
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
    /// The listener's session.
    pub session: Option<Uuid>,
    /// Messages that are not acknowledged yet.
    pub queued: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Counted since the bus was opened, as are the next four fields.
    pub accepted: u64,
    pub repeated: u64,
    pub delivered: u64,
    pub refused: u64,
    pub expired: u64,
    /// The current number, as in the next two fields.
    pub listening: usize,
    pub queued: usize,
    pub dead: usize,
}

pub type Receipts = Vec<Result<Receipt, PublishError>>;

/// Resolves when the messages are synced, with one result per message, in order.
#[derive(Debug)]
pub struct PendingReceipts(oneshot::Receiver<Receipts>, usize);

impl PendingReceipts {
    /// Creates receipts for `messages` messages. The bus keeps the sender.
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
