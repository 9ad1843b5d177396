//! The store: sessions, turns and events.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::{BoxFuture, BrowserStore, ScheduleStore, SessionQuery};
use crate::model::{
    ApprovalRecord, AuditEntry, AuditRecord, BlockId, ColdStart, ExternalName, IdPrefix, Quota,
    SearchMatch, SearchQuery, Seq, SessionId, SessionRecord, SessionSummary, StoredRule,
    TextChannel, TurnEvent, TurnId, TurnRecord, TurnState, UsageQuery, UsageTotals,
};

/// The return type of all store methods.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Stores sessions, turns and events. Several processes may open one store. Writes to a session carry the
/// [`Lease`] of its owner, and are refused if another process has taken over the lease.
pub trait Store: ScheduleStore + BrowserStore + Send + Sync + 'static {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()>;

    /// Replaces the session if its revision is unchanged, and returns the new revision.
    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64>;

    /// Returns a session. It counts as updated when it changes, and when its newest turn starts or ends.
    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>>;

    /// Lists sessions, newest first.
    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>>;

    /// Lists sessions with the additional fields shown in lists.
    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionSummary>>;

    /// Returns up to `limit` ids with this prefix, in order.
    fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreFuture<'_, Vec<uuid::Uuid>>;

    /// Returns, for each of these ids, the nearest id before it and the nearest one after it.
    fn neighbours(
        &self,
        kind: RecordKind,
        ids: Vec<uuid::Uuid>,
    ) -> StoreFuture<'_, Vec<[Option<uuid::Uuid>; 2]>>;

    /// Deletes a session with its turns, events and names. Fails with [`StoreError::Held`] if another live
    /// process owns it.
    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()>;

    /// Binds a name to a session unless the name is already bound, and returns the session that the name is
    /// bound to. Concurrent calls with the same name all return the same session.
    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId>;

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>>;

    /// Makes this process the owner of a session. Fails with [`StoreError::Held`] if another live process
    /// owns it. If this process already owns it, the new lease replaces the old one.
    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease>;

    /// Gives up ownership of a session. It is not an error if the lease was already lost.
    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()>;

    /// Commits a new turn as the newest one of its session, in one transaction with its claim and its history
    /// entry. So only one of several equal requests creates the turn, and its caller always finds it.
    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome>;

    /// Returns the result that [`Store::create_turn`] would return for this claim, without creating a turn.
    fn check_claim<'a>(&'a self, claim: &'a RequestClaim) -> StoreFuture<'a, ClaimOutcome>;

    /// Changes the state of an unfinished turn. Only a `Finished` event finishes a turn.
    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> StoreFuture<'a, ()>;

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>>;

    /// Lists turns of one session or of all, newest first. They are ordered by creation, regardless of the
    /// clock.
    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Lists turns like [`Store::turns`], but only those that match the filter.
    fn find_turns(&self, filter: TurnFilter, page: Page) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Queues events of one turn in order. The returned future resolves when they are committed. An
    /// `EventKind::Finished` among them finishes the turn in the same transaction, once and for all: later
    /// events are refused. Either all events are recorded or none, except that events that are not
    /// [stored](crate::model::EventKind::is_stored) are skipped.
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        self.append_after(lease, Vec::new(), events)
    }

    /// Queues events like [`append`](Self::append), but refuses them with [`StoreError::MissingEvent`] unless
    /// the events of their turn with the numbers `earlier` are recorded.
    fn append_after<'a>(
        &'a self,
        lease: &'a Lease,
        earlier: Vec<Seq>,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit>;

    /// Returns up to `limit` stored events with a number above `after`, in order.
    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>>;

    /// Queues text of incomplete blocks, so that it survives the death of this process. The end of the turn
    /// deletes it.
    fn save_open_text<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        pieces: Vec<OpenText>,
    ) -> StoreFuture<'a, PendingCommit>;

    /// Returns the saved text of an unfinished turn in order, including that of blocks completed since.
    fn open_text(&self, turn: TurnId) -> StoreFuture<'_, Vec<OpenText>>;

    /// Lists approvals, newest first. `append` derives them from the events, so the list matches what viewers
    /// saw. The decided approvals form an audit trail.
    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>>;

    /// Stores a rule that a person granted permanently. Storing the same grant again changes nothing.
    fn add_rule<'a>(&'a self, rule: &'a StoredRule) -> StoreFuture<'a, ()>;

    /// Lists the rules of all profiles, oldest first.
    fn rules(&self) -> StoreFuture<'_, Vec<StoredRule>>;

    /// Removes a rule and returns whether it existed.
    fn remove_rule(&self, id: uuid::Uuid) -> StoreFuture<'_, bool>;

    /// Queues an entry for the history index: the hash of a conversation after an answer, as its caller sees
    /// it. Adding the same entry again changes nothing.
    fn index_history<'a>(&'a self, entry: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit>;

    /// Returns the entries with this hash, newest first.
    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>>;

    /// Returns the cost of the finished turns that this caller sent or is charged for, and that started at or
    /// after `since`.
    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64>;

    /// Adds up the usage of turns, including unfinished ones and those of deleted sessions. Rows for days and
    /// hours are in chronological order; other rows are sorted by cost and tokens, highest first.
    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageTotals>>;

    /// Returns finished turns that found nothing in the model's cache, newest first. Uses only the times of
    /// the query.
    fn cold_starts(&self, query: UsageQuery, limit: usize) -> StoreFuture<'_, Vec<ColdStart>>;

    /// Queues the newest report about a quota.
    fn save_quota(&self, quota: Quota) -> StoreFuture<'_, PendingCommit>;

    /// Returns the newest report about each quota, by executor and window.
    fn quotas(&self) -> StoreFuture<'_, Vec<Quota>>;

    /// Searches what people and agents said in finished turns. Returns the newest match of each session,
    /// newest first.
    fn search(&self, query: SearchQuery) -> StoreFuture<'_, Vec<SearchMatch>>;

    /// Performs a small part of the work that keeps the search complete and free of deleted words, and
    /// returns what is left to do.
    fn maintain_search(&self) -> StoreFuture<'_, SearchUpkeep>;

    /// Returns the turns that the next owner of their session continues: parked turns, and queued turns that
    /// were handed over. Covers one session or all, whichever process owns them; oldest first.
    fn resumable_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Returns unfinished turns that no process works on, because the owner of their session is dead or there
    /// is none. Does not include resumable turns. Oldest first.
    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Returns sessions without a change or a turn since `before` and without unfinished turns, as candidates
    /// for removal. Oldest first.
    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>>;

    /// Adds a row to the audit log. Rows are numbered in the order in which they are added, and never changed
    /// or deleted.
    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()>;

    /// Lists the rows of the audit log, newest first.
    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>>;

    /// Checks that the store can be written by writing about as much as the end of a turn needs.
    fn check_writable(&self) -> StoreFuture<'_, ()>;

    /// Waits until everything queued is on disk, and closes the store.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Ownership of a session. Every write checks the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub session: SessionId,
    pub epoch: u64,
}

/// The process that owns a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    pub pid: u32,
    /// The command that started the process: `run`, `serve` …
    pub command: String,
}

/// A turn to create.
#[derive(Clone, Debug)]
pub struct NewTurn {
    pub record: TurnRecord,
    /// The turn is created only if the key of this claim is free.
    pub claim: Option<RequestClaim>,
    /// Hash under which the turn is indexed, see [`NewTurn::history_entry`].
    pub history_hash: Option<[u8; 32]>,
}

impl NewTurn {
    /// Returns the entry for the history index. It points to the start of the turn (`seq: 0`), so that a
    /// caller that repeats the request gets all of it.
    pub fn history_entry(&self) -> Option<HistoryEntry> {
        self.history_hash.map(|hash| HistoryEntry {
            hash,
            session: self.record.session,
            turn: self.record.id,
            seq: 0,
            at: self.record.created_at,
        })
    }
}

impl From<TurnRecord> for NewTurn {
    fn from(record: TurnRecord) -> Self {
        Self { record, claim: None, history_hash: None }
    }
}

/// A request's claim to run only once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestClaim {
    /// Each caller has its own set of keys.
    pub caller: Arc<str>,
    pub key: Arc<str>,
    pub input: [u8; 32],
    /// Claims made before this time are ignored.
    pub since: Timestamp,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The turn was created. Without a claim, this is the only outcome.
    New,
    /// The same request created this turn before.
    Repeats(TurnId),
    /// A different request used the same key for this turn.
    Conflicts(TurnId),
}

/// An entry of the history index: the hash of a conversation as its caller sees it, and the location of the
/// conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub hash: [u8; 32],
    pub session: SessionId,
    /// The turn that gave the last answer.
    pub turn: TurnId,
    /// Number of the answer's last event, because one turn may give several answers.
    pub seq: Seq,
    pub at: Timestamp,
}

/// A piece of text from an incomplete block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenText {
    pub block: BlockId,
    pub channel: TextChannel,
    /// Number of the last delta in this piece.
    pub seq: Seq,
    pub text: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Session,
    Turn,
    Approval,
    Schedule,
}

/// The work left to keep the search complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchUpkeep {
    Complete,
    /// The index still contains traces of deleted words.
    HasDeletedWords,
    HasUnindexedTurns,
}

/// Selects the turns to list. A field that is `None` or empty admits all turns.
#[derive(Clone, Debug, Default)]
pub struct TurnFilter {
    pub session: Option<SessionId>,
    /// Names from [`TurnState::as_str`].
    pub statuses: Vec<Arc<str>>,
    /// Only turns created at or after this time.
    pub since: Option<Timestamp>,
}

impl TurnFilter {
    /// Returns a filter for turns that have not ended.
    pub fn unfinished() -> Self {
        let statuses = TurnState::UNFINISHED.map(Into::into).to_vec();
        Self { statuses, ..Self::default() }
    }

    /// Returns whether the filter admits only turns that have not ended.
    pub fn is_unfinished(&self) -> bool {
        let unfinished = |status: &Arc<str>| TurnState::UNFINISHED.contains(&&**status);
        !self.statuses.is_empty() && self.statuses.iter().all(unfinished)
    }

    pub fn admits(&self, turn: &TurnRecord) -> bool {
        let status = turn.state.as_str();
        self.session.is_none_or(|session| session == turn.session)
            && (self.statuses.is_empty() || self.statuses.iter().any(|word| **word == *status))
            && self.since.is_none_or(|since| turn.created_at >= since)
    }
}

/// Selects the approvals to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalFilter {
    Pending,
    All,
}

/// Selects the rows of the audit log to list.
#[derive(Clone, Copy, Debug)]
pub struct AuditQuery {
    /// Only rows from this time on.
    pub since: Option<Timestamp>,
    /// Only rows with a smaller number; `None` to start with the newest.
    pub before: Option<u64>,
    pub limit: usize,
}

impl AuditQuery {
    pub const fn newest(limit: usize) -> Self {
        Self { since: None, before: None, limit }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub limit: usize,
    /// Only items older than this; `None` to start with the newest.
    pub before: Option<uuid::Uuid>,
}

impl Page {
    pub const fn first(limit: usize) -> Self {
        Self { limit, before: None }
    }

    /// Returns the page that starts at `id`, for lists without a lookup. If no item has this id, the first
    /// item has a different one.
    pub fn starting_at(id: uuid::Uuid) -> Self {
        let next = id.as_u128().checked_add(1);
        Self { limit: 1, before: next.map(uuid::Uuid::from_u128) }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error(
        "the session is in use by `angelia {}` (process {}); wait for it to end, or stop it",
        .0.command, .0.pid
    )]
    Held(LeaseHolder),
    #[error("another process has taken over this session")]
    LeaseLost,
    #[error("the session was changed by another writer in the meantime")]
    Conflict,
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("the turn has already finished")]
    TurnFinished,
    #[error("event {seq} of this turn is already recorded")]
    DuplicateEvent { seq: Seq },
    #[error("event {seq} of this turn is not recorded")]
    MissingEvent { seq: Seq },
    /// A text is too long for the store, however much space there is.
    #[error("{message}")]
    TooLarge { message: String },
    #[error("{message}")]
    Failed { message: String },
}

impl StoreError {
    pub const SESSION_NOT_FOUND: Self = Self::NotFound("session");
    pub const TURN_NOT_FOUND: Self = Self::NotFound("turn");

    /// Returns whether the same write may succeed later. All other errors are definite answers from a working
    /// store.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Failed { .. })
    }
}

/// Resolves when a queued write is committed and thus survives the death of this process.
#[derive(Debug)]
pub struct PendingCommit(oneshot::Receiver<Result<(), StoreError>>);

impl PendingCommit {
    /// Creates a pending commit. The store's writer keeps the sender.
    pub fn new() -> (oneshot::Sender<Result<(), StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// Returns a write that has already succeeded or failed.
    pub fn ready(written: Result<(), StoreError>) -> Self {
        let (sender, committed) = Self::new();
        let _nobody_waits = sender.send(written);
        committed
    }
}

impl Future for PendingCommit {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| {
            answer.unwrap_or_else(|_writer_gone| {
                Err(StoreError::Failed { message: "the store closed before it committed".into() })
            })
        })
    }
}
