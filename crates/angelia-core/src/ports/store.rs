//! Where sessions, turns and events are kept.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::BoxFuture;
use crate::model::{
    ApprovalRecord, ExternalName, Seq, SessionId, SessionRecord, TurnEvent, TurnId, TurnRecord,
    TurnState,
};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Several processes may open one store. What a session's owner writes carries its [`Lease`]; a
/// lease that somebody else has taken over since is refused.
pub trait Store: Send + Sync + 'static {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, ()>;

    /// Replaces the session if its revision is still the one given, and returns the new revision.
    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, u64>;

    fn session(&self, id: SessionId) -> Answer<'_, Option<SessionRecord>>;

    /// Newest first.
    fn sessions(&self, page: Page) -> Answer<'_, Vec<SessionRecord>>;

    /// With its turns, events and names. [`StoreError::Held`] if another living process owns it.
    fn delete_session(&self, id: SessionId) -> Answer<'_, ()>;

    /// Gives a session a name, unless the name has a session already; returns the session it
    /// means from now on. Of any number who give one name at once, all get the same session.
    fn bind_name<'a>(&'a self, name: &'a ExternalName, session: SessionId)
    -> Answer<'a, SessionId>;

    fn named<'a>(&'a self, name: &'a ExternalName) -> Answer<'a, Option<SessionId>>;

    /// Makes this process the owner of a session. [`StoreError::Held`] names a living owner. A
    /// session that this process owns already gets a new lease, and the old one is lost.
    fn acquire(&self, session: SessionId) -> Answer<'_, Lease>;

    /// Gives the session up; a lease that was lost already is not an error.
    fn release(&self, lease: Lease) -> Answer<'_, ()>;

    /// Queues a new turn; whatever is queued after it finds it there.
    fn create_turn<'a>(&'a self, lease: &'a Lease, turn: &'a TurnRecord) -> Answer<'a, Committed>;

    /// Like `create_turn`, if nobody has claimed the key before; both happen in one transaction,
    /// so that of any number of equal requests one creates the turn.
    fn create_turn_once<'a>(
        &'a self,
        lease: &'a Lease,
        turn: &'a TurnRecord,
        claim: &'a Claim,
    ) -> Answer<'a, Claimed>;

    /// Changes the state of an unfinished turn. Finishing is done by the event itself.
    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> Answer<'a, ()>;

    fn turn(&self, id: TurnId) -> Answer<'_, Option<TurnRecord>>;

    /// Newest first; of one session, or of all.
    fn turns(&self, session: Option<SessionId>, page: Page) -> Answer<'_, Vec<TurnRecord>>;

    /// Queues events of one turn in order. The returned value resolves when they are committed;
    /// an `EventKind::Finished` among them finishes the turn in the same transaction, once: what
    /// comes after it is refused. Either all of them are recorded or none; events that are not
    /// [stored](crate::model::EventKind::is_stored) are passed over.
    fn append<'a>(&'a self, lease: &'a Lease, events: Vec<TurnEvent>) -> Answer<'a, Committed>;

    /// Stored events with a number above `after`, in order, at most `limit`.
    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> Answer<'_, Vec<TurnEvent>>;

    /// What was asked of people, newest first. Kept by `append`, from the events themselves: the
    /// list is what viewers saw, and the decided ones are the audit.
    fn approvals(&self, which: Approvals, page: Page) -> Answer<'_, Vec<ApprovalRecord>>;

    /// Queues a note of what the conversation of a session looked like to its caller after an
    /// answer. The same note again is the same note.
    fn note_history<'a>(&'a self, note: &'a HistoryNote) -> Answer<'a, Committed>;

    /// Where a conversation looked like this, newest first.
    fn with_history(&self, hash: [u8; 32], limit: usize) -> Answer<'_, Vec<HistoryNote>>;

    /// What the finished turns of a caller have cost that were begun since.
    fn spent<'a>(&'a self, caller: &'a str, since: Timestamp) -> Answer<'a, f64>;

    /// Turns that wait for a quota, whoever owns them; of one session, or of all. Oldest first.
    fn parked_turns(&self, session: Option<SessionId>) -> Answer<'_, Vec<TurnRecord>>;

    /// Unfinished turns that nobody works on: their session's owner is dead, or it has none.
    /// Parked ones are not lost. Oldest first.
    fn lost_turns(&self) -> Answer<'_, Vec<TurnRecord>>;

    /// Sessions neither changed nor given a turn since, without unfinished turns: candidates for
    /// retention. Oldest first.
    fn stale_sessions(&self, before: Timestamp) -> Answer<'_, Vec<SessionRecord>>;

    /// Waits until everything queued is on disk, and closes.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Ownership of a session: the epoch is checked in every append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub session: SessionId,
    pub epoch: u64,
}

/// Who owns a session that we wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// `run`, `serve` …
    pub command: String,
}

/// A request's claim on being run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose key it is; two callers never meet.
    pub caller: Arc<str>,
    pub key: Arc<str>,
    /// Hash of what was asked.
    pub input: [u8; 32],
    /// Claims made before this are forgotten.
    pub since: Timestamp,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The turn was created.
    New,
    /// The same was asked before: it is this turn.
    Repeats(TurnId),
    /// Something else was asked under the same key.
    Conflicts(TurnId),
}

/// A conversation as its caller knows it, by hash, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryNote {
    pub hash: [u8; 32],
    pub session: SessionId,
    /// The turn that gave the last answer.
    pub turn: TurnId,
    /// The number of the answer's last event: one turn may give several answers.
    pub seq: Seq,
    pub at: Timestamp,
}

/// Which approvals are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approvals {
    Pending,
    All,
}

#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub limit: usize,
    /// Only what is older than this; `None`: from the newest.
    pub before: Option<uuid::Uuid>,
}

impl Page {
    pub const fn first(limit: usize) -> Self {
        Self { limit, before: None }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error(
        "the session is in use by `angelia {}` (process {}); wait for it to end, or stop it",
        .0.command, .0.pid
    )]
    Held(Holder),
    #[error("another process has taken this session over")]
    LeaseLost,
    #[error("the session was changed by somebody else meanwhile")]
    Conflict,
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("the turn has finished already")]
    TurnFinished,
    #[error("event {seq} of this turn is recorded already")]
    Recorded { seq: Seq },
    #[error("{message}")]
    Failed { message: String },
}

/// Resolves when what was queued is committed: it survives the death of this process.
#[derive(Debug)]
pub struct Committed(oneshot::Receiver<Result<(), StoreError>>);

impl Committed {
    /// The sender is the store's writer.
    pub fn new() -> (oneshot::Sender<Result<(), StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// What has been written already, or refused.
    pub fn at_once(written: Result<(), StoreError>) -> Self {
        let (sender, committed) = Self::new();
        let _nobody_waits = sender.send(written);
        committed
    }
}

impl Future for Committed {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| {
            answer.unwrap_or_else(|_writer_gone| {
                Err(StoreError::Failed { message: "the store was closed before it wrote".into() })
            })
        })
    }
}
