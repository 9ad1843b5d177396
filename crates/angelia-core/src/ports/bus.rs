//! Durable messages between endpoints.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::BoxFuture;
use crate::model::{EndpointName, MessageId, bus::Message};

/// Keeps messages until their receivers have them. What is accepted is synced: it survives a
/// power failure. A receiver gets the messages of one sender in the order they were published.
pub trait Bus: Send + Sync + 'static {
    /// Queues messages in order; awaiting this is waiting for room, which is how a sender that is
    /// too fast is slowed down. The receipts come when the messages are synced.
    ///
    /// `watch` hears of each message whose receiver has taken it. Whoever lets it fill up misses
    /// notices, never messages.
    fn publish(&self, messages: Vec<Message>, watch: Option<Watch>) -> BoxFuture<'_, Published>;

    /// Makes the caller the one who receives for a name. What waits for it comes first, oldest
    /// first.
    fn attach(&self, claim: Claim) -> BoxFuture<'_, Result<Box<dyn Inbox>, AttachError>>;

    /// Is this the token that the name is protected by? `false` when it has none.
    fn proves(&self, name: &str, token: &str) -> bool;

    /// Everybody who listens, by name; cheap.
    fn listening(&self) -> Vec<(EndpointName, Uuid)>;

    /// Every name that listens or has something waiting, by name.
    fn endpoints(&self) -> Vec<EndpointState>;

    fn counts(&self) -> BusCounts;

    /// Messages that will not be delivered any more, newest first, at most `limit`, older than
    /// `before`.
    fn dead_letters(
        &self,
        before: Option<Position>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeadLetter>, BusError>>;

    /// Sends a dead letter once more, as if it had been published now.
    fn resend(&self, dead: Position) -> BoxFuture<'_, Result<Receipt, BusError>>;

    /// Forgets a dead letter.
    fn discard(&self, dead: Position) -> BoxFuture<'_, Result<(), BusError>>;

    /// Waits until everything queued is on disk, and closes.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The receiving end of a name. Dropped, it gives back what it has not acknowledged: whoever
/// attaches next gets that again, marked.
pub trait Inbox: Send {
    /// The name that was given, with its suffix.
    fn endpoint(&self) -> &EndpointName;

    fn session(&self) -> Uuid;

    /// Waits for at least one message and takes at most `limit`. Safe to cancel: nothing is taken
    /// then.
    fn next(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<Delivery>, InboxError>>;

    /// These are done with. Never waits; an acknowledgement that a crash loses means that the
    /// message comes again, with the same id.
    fn ack(&mut self, taken: &[Position]);

    /// These were written to a receiver that does not acknowledge: their senders hear of it now, and
    /// they are done with when [`Inbox::ack`] says so.
    fn handed(&mut self, taken: &[Position]);

    /// This one can never be handled: it becomes a dead letter.
    fn refuse(&mut self, taken: Position, reason: &str);
}

/// Where a message stands in the order of the whole bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// Who wants to receive under which name.
#[derive(Clone, Debug)]
pub struct Claim {
    pub name: EndpointName,
    pub taken: WhenTaken,
    /// The name stays known while nobody listens, so that what is sent to everyone waits for it.
    pub durable: bool,
    /// Protects the name from now on, or proves the right to a protected one.
    pub token: Option<String>,
}

impl Claim {
    pub fn new(name: EndpointName) -> Self {
        Self { name, taken: WhenTaken::Displace, durable: false, token: None }
    }
}

/// What to do about somebody who has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenTaken {
    /// The new one gets it; the old one is told.
    Displace,
    /// The lowest free of `name`, `name-2`, `name-3` …
    Suffix,
    Refuse,
}

/// A message in a receiver's hands.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub position: Position,
    pub message: Message,
    /// It may have been seen before: somebody took it and did not acknowledge it.
    pub again: bool,
}

/// Hears of messages whose receivers have taken them.
pub type Watch = mpsc::Sender<Vec<MessageId>>;

/// The message is kept and synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    pub presence: Presence,
    /// The same message was accepted before; it is delivered once.
    pub repeated: bool,
}

/// Was anybody there when a message came?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Listening,
    /// It waits for a name that was there before.
    Away,
    /// It waits for a name that nobody has ever had.
    NeverSeen,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{to} has {queued} messages waiting and takes no more until some are received")]
    Full { to: EndpointName, queued: usize },
    #[error("a message of {size} bytes is larger than the bus takes ({limit})")]
    TooLarge { size: usize, limit: usize },
    #[error("{0}")]
    Storage(BusError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    #[error("{0} is taken")]
    Taken(EndpointName),
    #[error("{0} is protected by a token, and this is not it")]
    WrongToken(EndpointName),
    #[error("no suffix of {0} is free")]
    NoSuffix(EndpointName),
    #[error(transparent)]
    Bus(#[from] BusError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    #[error("somebody else has taken the name {0} over")]
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

/// A message that will not be delivered any more.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub position: Position,
    pub to: EndpointName,
    pub message: Message,
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    pub name: EndpointName,
    /// The session that listens.
    pub session: Option<Uuid>,
    /// Not yet acknowledged.
    pub queued: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Since the bus was opened.
    pub accepted: u64,
    pub repeated: u64,
    pub delivered: u64,
    pub refused: u64,
    pub expired: u64,
    /// Now.
    pub listening: usize,
    pub queued: usize,
    pub dead: usize,
}

pub type Receipts = Vec<Result<Receipt, Refusal>>;

/// Resolves when what was published is synced, with one answer for each message, in order.
#[derive(Debug)]
pub struct Published(oneshot::Receiver<Receipts>, usize);

impl Published {
    /// For this many messages; the sender is the bus.
    pub fn new(messages: usize) -> (oneshot::Sender<Receipts>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver, messages))
    }
}

impl Future for Published {
    type Output = Receipts;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let messages = self.1;
        Pin::new(&mut self.0).poll(cx).map(|answer| {
            let closed = Err(Refusal::Storage(BusError::Closed));
            answer.unwrap_or_else(|_bus_gone| vec![closed; messages])
        })
    }
}
