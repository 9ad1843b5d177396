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

/// The return type of every method of a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Several processes may open one store. Writes to a session carry the [`Lease`] of its owner; they
/// are refused if another process has taken over the lease.
pub trait Store: ScheduleStore + BrowserStore + Send + Sync + 'static {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()>;

    /// Replaces the session if its revision is unchanged, and returns the new revision.
    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64>;

    /// A session counts as updated when it changes, and when its newest turn starts or ends.
    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>>;

    /// Lists sessions, newest first.
    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>>;

    /// Lists sessions, with the fields that lists show.
    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionSummary>>;

    /// Returns at most `limit` ids with this prefix, in order.
    fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreFuture<'_, Vec<uuid::Uuid>>;

    /// Returns for each of these ids the nearest id before it and the nearest one after it.
    fn neighbours(
        &self,
        kind: RecordKind,
        ids: Vec<uuid::Uuid>,
    ) -> StoreFuture<'_, Vec<[Option<uuid::Uuid>; 2]>>;

    /// Deletes a session with its turns, events and names. Fails with [`StoreError::Held`] if
    /// another live process owns it.
    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()>;

    /// Binds a name to a session unless the name is bound already, and returns the session that the
    /// name is bound to. Concurrent calls with one name all return the same session.
    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId>;

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>>;

    /// Makes this process the owner of a session. Fails with [`StoreError::Held`] if another live
    /// process owns it. If this process owns it already, the new lease replaces the old one.
    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease>;

    /// Gives up the ownership of a session; not an error if the lease was already lost.
    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()>;

    /// Commits a new turn as the newest one of its session, in one transaction with its claim and
    /// its history entry, so that only one of several equal requests creates the turn, and its
    /// caller always finds it.
    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome>;

    /// Returns the result that [`Store::create_turn`] would give to this claim, without creating a
    /// turn.
    fn check_claim<'a>(&'a self, claim: &'a RequestClaim) -> StoreFuture<'a, ClaimOutcome>;

    /// Changes the state of an unfinished turn. Only a `Finished` event finishes a turn.
    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> StoreFuture<'a, ()>;

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>>;

    /// Lists turns, newest first, in the order in which they were created, regardless of the clock;
    /// of one session, or of all.
    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Like [`Store::turns`], only those that the filter lets through.
    fn find_turns(&self, filter: TurnFilter, page: Page) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Queues events of one turn in order. The returned future resolves when they are committed. An
    /// `EventKind::Finished` among them finishes the turn in the same transaction, once: later
    /// events are refused. Either all events are recorded or none; those that are not
    /// [stored](crate::model::EventKind::is_stored) are skipped.
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        self.append_after(lease, Vec::new(), events)
    }

    /// Like [`append`](Self::append), but refuses the events with [`StoreError::MissingEvent`] unless
    /// the events of their turn with the numbers `earlier` are recorded.
    fn append_after<'a>(
        &'a self,
        lease: &'a Lease,
        earlier: Vec<Seq>,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit>;

    /// Returns stored events with a number above `after`, in order, at most `limit`.
    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>>;

    /// Queues text of blocks that are not complete yet, so that it survives the death of this process.
    /// The end of the turn deletes it.
    fn save_open_text<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        pieces: Vec<OpenText>,
    ) -> StoreFuture<'a, PendingCommit>;

    /// Returns the saved text of an unfinished turn, in order; also of blocks that are complete now.
    fn open_text(&self, turn: TurnId) -> StoreFuture<'_, Vec<OpenText>>;

    /// Lists approvals, newest first. `append` derives them from the events, so the list is what
    /// viewers saw; the decided ones are the audit.
    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>>;

    /// Keeps a rule that a person granted for good. The same grant again changes nothing.
    fn add_rule<'a>(&'a self, rule: &'a StoredRule) -> StoreFuture<'a, ()>;

    /// Lists the rules of all profiles, oldest first.
    fn rules(&self) -> StoreFuture<'_, Vec<StoredRule>>;

    /// Returns whether the rule was there.
    fn remove_rule(&self, id: uuid::Uuid) -> StoreFuture<'_, bool>;

    /// Queues an entry of the history index: the hash of a conversation after an answer, as its
    /// caller sees it. Adding the same entry again changes nothing.
    fn index_history<'a>(&'a self, entry: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit>;

    /// Returns the entries with this hash, newest first.
    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>>;

    /// Returns the cost of the finished turns that this caller has sent or is charged for, and that
    /// started at or after `since`.
    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64>;

    /// Adds up what turns used, also unfinished ones and those of deleted sessions. Days and hours
    /// are in order; other rows come by cost and tokens, the greatest first.
    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageTotals>>;

    /// Returns finished turns that found nothing in the model's cache, newest first. Only the times
    /// of the query count.
    fn cold_starts(&self, query: UsageQuery, limit: usize) -> StoreFuture<'_, Vec<ColdStart>>;

    /// Queues the newest report of a quota.
    fn save_quota(&self, quota: Quota) -> StoreFuture<'_, PendingCommit>;

    /// The newest report of each quota, by executor and window.
    fn quotas(&self) -> StoreFuture<'_, Vec<Quota>>;

    /// Searches what persons and agents said in finished turns. One match for each session, the
    /// newest; newest first.
    fn search(&self, query: SearchQuery) -> StoreFuture<'_, Vec<SearchMatch>>;

    /// Does a small part of the work that keeps the search complete and free of deleted words, and
    /// returns what is left.
    fn maintain_search(&self) -> StoreFuture<'_, SearchUpkeep>;

    /// Turns that the next owner of their session goes on with: parked ones, and queued ones that were
    /// handed over. Of one session or of all, whichever process owns them; oldest first.
    fn resumable_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Unfinished turns that no process works on: the owner of their session is dead, or there is
    /// none. Resumable turns are not lost. Oldest first.
    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>>;

    /// Sessions without a change or a turn since `before` and without unfinished turns: candidates
    /// for removal. Oldest first.
    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>>;

    /// Adds a row to the audit. Rows are numbered in the order in which they are added, and are
    /// never changed or deleted.
    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()>;

    /// Lists the audit, newest row first.
    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>>;

    /// Checks that the store can be written, by writing about as much as the end of a turn needs.
    fn check_writable(&self) -> StoreFuture<'_, ()>;

    /// Waits until everything queued is on disk, and closes the store.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Ownership of a session. The epoch is checked by every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub session: SessionId,
    pub epoch: u64,
}

/// The process that owns a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    pub pid: u32,
    /// Its command: `run`, `serve` …
    pub command: String,
}

/// A turn to create.
#[derive(Clone, Debug)]
pub struct NewTurn {
    pub record: TurnRecord,
    /// The turn is created only if the key of this claim is free.
    pub claim: Option<RequestClaim>,
    /// Indexes the turn under this hash, see [`NewTurn::history_entry`].
    pub history_hash: Option<[u8; 32]>,
}

impl NewTurn {
    /// The entry points to the start of the turn (`seq: 0`): a caller that repeats the request gets
    /// all of it.
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

/// The claim of a request to be run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestClaim {
    /// Callers have separate keys.
    pub caller: Arc<str>,
    pub key: Arc<str>,
    pub input: [u8; 32],
    /// Claims made before this time are forgotten.
    pub since: Timestamp,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The turn was created; without a claim this is the only outcome.
    New,
    /// The same request created this turn before.
    Repeats(TurnId),
    /// A different request used the same key for this turn.
    Conflicts(TurnId),
}

/// An entry of the history index: the hash of a conversation as its caller sees it, and where the
/// conversation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub hash: [u8; 32],
    pub session: SessionId,
    /// The turn that gave the last answer.
    pub turn: TurnId,
    /// The number of the answer's last event: one turn may give several answers.
    pub seq: Seq,
    pub at: Timestamp,
}

/// A piece of the text of a block that is not complete yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenText {
    pub block: BlockId,
    pub channel: TextChannel,
    /// Number of the last delta in this piece.
    pub seq: Seq,
    pub text: Arc<str>,
}

/// Kinds of records that have ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Session,
    Turn,
    Approval,
    Schedule,
}

/// The work that is left to keep the search complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchUpkeep {
    Complete,
    /// The index still has traces of deleted words.
    HasDeletedWords,
    HasUnindexedTurns,
}

/// Selects the turns to list. A field that is `None` or empty lets all turns through.
#[derive(Clone, Debug, Default)]
pub struct TurnFilter {
    pub session: Option<SessionId>,
    /// Words of [`TurnState::as_str`].
    pub statuses: Vec<Arc<str>>,
    /// Only turns that were created at or after this time.
    pub since: Option<Timestamp>,
}

impl TurnFilter {
    /// The turns that have not ended.
    pub fn unfinished() -> Self {
        let statuses = TurnState::UNFINISHED.map(Into::into).to_vec();
        Self { statuses, ..Self::default() }
    }

    /// Whether it lets through only turns that have not ended.
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

/// Selects the rows of the audit to list.
#[derive(Clone, Copy, Debug)]
pub struct AuditQuery {
    /// Only rows from this time on.
    pub since: Option<Timestamp>,
    /// Only rows with a smaller number; `None`: from the newest.
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
    /// Only items older than this; `None`: from the newest.
    pub before: Option<uuid::Uuid>,
}

impl Page {
    pub const fn first(limit: usize) -> Self {
        Self { limit, before: None }
    }

    /// The page that starts at `id`, for lists without a lookup: its first item has this id, or no
    /// item has.
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
    /// A text is longer than the store can write, however much room there is.
    #[error("{message}")]
    TooLarge { message: String },
    #[error("{message}")]
    Failed { message: String },
}

impl StoreError {
    pub const SESSION_NOT_FOUND: Self = Self::NotFound("session");
    pub const TURN_NOT_FOUND: Self = Self::NotFound("turn");

    /// Whether the same write may succeed later. The other errors are definite answers of a working
    /// store.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Failed { .. })
    }
}

/// Resolves when a queued write is committed: it survives the death of this process.
#[derive(Debug)]
pub struct PendingCommit(oneshot::Receiver<Result<(), StoreError>>);

impl PendingCommit {
    /// The store's writer keeps the sender.
    pub fn new() -> (oneshot::Sender<Result<(), StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// A write that has already succeeded or failed.
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
