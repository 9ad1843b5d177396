//! A store as used by one process. A test can make it fail for a while, make single writes fail, or
//! kill the process: from then on, the process can neither read nor write, and its leases have no
//! owner.
#![expect(clippy::unwrap_used, reason = "a test double fails by panicking")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use angelia_core::{
    model::{
        ApprovalRecord, AuditEntry, AuditRecord, BrowserRecord, ColdStart, EventKind, ExternalName,
        IdPrefix, Occurrence, Quota, ScheduleId, ScheduleRecord, ScheduleSummary, SearchMatch,
        SearchQuery, Seq, SessionId, SessionRecord, SessionSummary, StoredRule, TurnEvent, TurnId,
        TurnRecord, TurnState, UsageQuery, UsageTotals,
    },
    ports::{
        ApprovalFilter, AuditQuery, BoxFuture, BrowserStore, ClaimOutcome, HistoryEntry, Lease,
        NewTurn, OpenText, Page, PendingCommit, RecordKind, RequestClaim, ScheduleAdvance,
        ScheduleChange, ScheduleStore, SearchUpkeep, SessionQuery, Store, StoreError, StoreFuture,
        TurnFilter,
    },
};
use jiff::Timestamp;

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// `ENOSPC`
    NoSpace,
    /// `EIO`
    InputOutput,
    /// `SQLITE_TOOBIG`
    TooBig,
    /// The write is committed, but an error is reported.
    LostReply,
}

impl WriteFault {
    pub const ALL: [Self; 4] = [Self::NoSpace, Self::InputOutput, Self::TooBig, Self::LostReply];

    fn error(self) -> StoreError {
        let message = format!("the test made this write fail: {self:?}");
        match self {
            Self::TooBig => StoreError::TooLarge { message },
            _ => StoreError::Failed { message },
        }
    }
}

/// Which writes fail, by number.
#[derive(Debug, Default)]
struct WriteFaults {
    from: usize,
    until: usize,
    fault: Option<WriteFault>,
}

pub struct UnreliableStore {
    store: Arc<dyn Store>,
    is_failing: AtomicBool,
    write_count: AtomicUsize,
    faults: Mutex<WriteFaults>,
    /// How appends with a longer text fail.
    text_limit: Mutex<Option<(usize, WriteFault)>>,
    leases: Mutex<Vec<Lease>>,
}

impl UnreliableStore {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            is_failing: AtomicBool::new(false),
            write_count: AtomicUsize::new(0),
            faults: Mutex::default(),
            text_limit: Mutex::default(),
            leases: Mutex::default(),
        }
    }

    /// Makes `count` writes fail, starting with number `first`; the next write is number 1.
    pub fn fail_writes(&self, first: usize, count: usize, fault: WriteFault) {
        let from = self.write_count() + first;
        let until = from.saturating_add(count);
        *self.faults.lock().unwrap() = WriteFaults { from, until, fault: Some(fault) };
    }

    /// Makes every append fail that contains a text of more than `limit` bytes.
    pub fn refuse_texts_over(&self, limit: usize, fault: WriteFault) {
        *self.text_limit.lock().unwrap() = Some((limit, fault));
    }

    fn text_fault(&self, events: &[TurnEvent]) -> Option<WriteFault> {
        let (limit, fault) = (*self.text_limit.lock().unwrap())?;
        let length = |event: &TurnEvent| match &event.kind {
            EventKind::Block { text, .. } => text.len(),
            EventKind::Finished(outcome) => outcome.text.len(),
            _ => 0,
        };
        events.iter().any(|event| length(event) > limit).then_some(fault)
    }

    /// Makes all further writes succeed.
    pub fn heal(&self) {
        *self.text_limit.lock().unwrap() = None;
        *self.faults.lock().unwrap() = WriteFaults::default();
    }

    /// Returns the number of writes so far.
    pub fn write_count(&self) -> usize {
        self.write_count.load(Ordering::SeqCst)
    }

    /// Counts a write and returns its fault, if it fails.
    fn next_fault(&self) -> Option<WriteFault> {
        let number = self.write_count.fetch_add(1, Ordering::SeqCst) + 1;
        let faults = self.faults.lock().unwrap();
        faults.fault.filter(|_| (faults.from..faults.until).contains(&number))
    }

    /// Returns the store that other processes use.
    pub fn disk(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Makes every call fail until this is set to `false` again.
    pub fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::SeqCst);
    }

    pub async fn kill(&self) {
        self.set_failing(true);
        let leases = std::mem::take(&mut *self.leases.lock().unwrap());
        for lease in leases {
            self.store.release_lease(lease).await.unwrap();
        }
    }

    fn unless_failing<'a, T: 'a>(
        &'a self,
        answer: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        if self.is_failing.load(Ordering::SeqCst) {
            let message = "the test made the store fail".to_owned();
            return Box::pin(async { Err(StoreError::Failed { message }) });
        }
        answer(&*self.store)
    }
}

impl UnreliableStore {
    fn write<'a, T: Send + 'a>(
        &'a self,
        write: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        match self.next_fault() {
            None => self.unless_failing(write),
            Some(fault @ WriteFault::LostReply) => {
                let written = self.unless_failing(write);
                Box::pin(async move { written.await.and(Err(fault.error())) })
            }
            Some(fault) => Box::pin(async move { Err(fault.error()) }),
        }
    }

    /// Queues a write like [`UnreliableStore::write`]. The fault appears when the write is
    /// committed.
    fn queue<'a>(
        &'a self,
        write: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, PendingCommit>,
    ) -> StoreFuture<'a, PendingCommit> {
        match self.next_fault() {
            None => self.unless_failing(write),
            Some(fault @ WriteFault::LostReply) => {
                let written = self.unless_failing(write);
                Box::pin(async move {
                    written.await?.await?;
                    Ok(PendingCommit::ready(Err(fault.error())))
                })
            }
            Some(fault) => Box::pin(async move { Ok(PendingCommit::ready(Err(fault.error()))) }),
        }
    }
}

impl std::fmt::Debug for UnreliableStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnreliableStore").finish_non_exhaustive()
    }
}

impl Store for UnreliableStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()> {
        self.write(|store| store.create_session(session))
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64> {
        self.write(|store| store.put_session(session))
    }

    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>> {
        self.unless_failing(|store| store.session(id))
    }

    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>> {
        self.unless_failing(|store| store.sessions(page))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionSummary>> {
        self.unless_failing(|store| store.list_sessions(query))
    }

    fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreFuture<'_, Vec<uuid::Uuid>> {
        self.unless_failing(|store| store.find_ids(kind, prefix, limit))
    }

    fn neighbours(
        &self,
        kind: RecordKind,
        ids: Vec<uuid::Uuid>,
    ) -> StoreFuture<'_, Vec<[Option<uuid::Uuid>; 2]>> {
        self.unless_failing(|store| store.neighbours(kind, ids))
    }

    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()> {
        self.write(|store| store.delete_session(id))
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId> {
        self.write(|store| store.bind_name(name, session))
    }

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>> {
        self.unless_failing(|store| store.find_by_name(name))
    }

    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease> {
        let acquire = self.write(|store| store.acquire_lease(session));
        Box::pin(async {
            let lease = acquire.await?;
            self.leases.lock().unwrap().push(lease.clone());
            Ok(lease)
        })
    }

    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()> {
        let release = self.write(|store| store.release_lease(lease.clone()));
        Box::pin(async move {
            release.await?;
            self.leases.lock().unwrap().retain(|held| *held != lease);
            Ok(())
        })
    }

    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome> {
        self.write(|store| store.create_turn(lease, new))
    }

    fn check_claim<'a>(&'a self, claim: &'a RequestClaim) -> StoreFuture<'a, ClaimOutcome> {
        self.unless_failing(|store| store.check_claim(claim))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> StoreFuture<'a, ()> {
        self.write(|store| store.set_turn_state(lease, turn, state))
    }

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>> {
        self.unless_failing(|store| store.turn(id))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.turns(session, page))
    }

    fn find_turns(&self, filter: TurnFilter, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.find_turns(filter, page))
    }

    fn append_after<'a>(
        &'a self,
        lease: &'a Lease,
        earlier: Vec<Seq>,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        if let Some(fault) = self.text_fault(&events) {
            return Box::pin(async move { Ok(PendingCommit::ready(Err(fault.error()))) });
        }
        self.queue(|store| store.append_after(lease, earlier, events))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>> {
        self.unless_failing(|store| store.replay(turn, after, limit))
    }

    fn save_open_text<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        pieces: Vec<OpenText>,
    ) -> StoreFuture<'a, PendingCommit> {
        self.queue(|store| store.save_open_text(lease, turn, pieces))
    }

    fn open_text(&self, turn: TurnId) -> StoreFuture<'_, Vec<OpenText>> {
        self.unless_failing(|store| store.open_text(turn))
    }

    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>> {
        self.unless_failing(|store| store.approvals(which, page))
    }

    fn add_rule<'a>(&'a self, rule: &'a StoredRule) -> StoreFuture<'a, ()> {
        self.unless_failing(|store| store.add_rule(rule))
    }

    fn rules(&self) -> StoreFuture<'_, Vec<StoredRule>> {
        self.unless_failing(|store| store.rules())
    }

    fn remove_rule(&self, id: uuid::Uuid) -> StoreFuture<'_, bool> {
        self.unless_failing(|store| store.remove_rule(id))
    }

    fn index_history<'a>(&'a self, entry: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit> {
        self.queue(|store| store.index_history(entry))
    }

    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>> {
        self.unless_failing(|store| store.find_by_history(hash, limit))
    }

    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64> {
        self.unless_failing(|store| store.cost_since(caller, since))
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageTotals>> {
        self.unless_failing(|store| store.usage(query))
    }

    fn cold_starts(&self, query: UsageQuery, limit: usize) -> StoreFuture<'_, Vec<ColdStart>> {
        self.unless_failing(|store| store.cold_starts(query, limit))
    }

    fn save_quota(&self, quota: Quota) -> StoreFuture<'_, PendingCommit> {
        self.unless_failing(|store| store.save_quota(quota))
    }

    fn quotas(&self) -> StoreFuture<'_, Vec<Quota>> {
        self.unless_failing(|store| store.quotas())
    }

    fn search(&self, query: SearchQuery) -> StoreFuture<'_, Vec<SearchMatch>> {
        self.unless_failing(|store| store.search(query))
    }

    fn maintain_search(&self) -> StoreFuture<'_, SearchUpkeep> {
        self.unless_failing(|store| store.maintain_search())
    }

    fn resumable_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.resumable_turns(session))
    }

    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.lost_turns())
    }

    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>> {
        self.unless_failing(|store| store.stale_sessions(before))
    }

    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()> {
        self.write(|store| store.record_audit(entry))
    }

    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>> {
        self.unless_failing(|store| store.audit(query))
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.write(Store::check_writable)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl BrowserStore for UnreliableStore {
    fn add_browser(&self, browser: BrowserRecord) -> StoreFuture<'_, ()> {
        self.write(|store| store.add_browser(browser))
    }

    fn browsers(&self) -> StoreFuture<'_, Vec<BrowserRecord>> {
        self.unless_failing(|store| store.browsers())
    }

    fn note_browser_use(
        &self,
        id: uuid::Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> StoreFuture<'_, ()> {
        self.write(|store| store.note_browser_use(id, used_at, expires_at))
    }

    fn remove_browser(&self, id: uuid::Uuid) -> StoreFuture<'_, bool> {
        self.write(|store| store.remove_browser(id))
    }
}

impl ScheduleStore for UnreliableStore {
    fn add_schedule<'a>(&'a self, schedule: &'a ScheduleRecord) -> StoreFuture<'a, ()> {
        self.write(|store| store.add_schedule(schedule))
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleSummary>> {
        self.unless_failing(|store| store.schedules())
    }

    fn schedule(&self, id: ScheduleId) -> StoreFuture<'_, Option<ScheduleSummary>> {
        self.unless_failing(|store| store.schedule(id))
    }

    fn change_schedule(&self, id: ScheduleId, change: ScheduleChange) -> StoreFuture<'_, bool> {
        self.write(|store| store.change_schedule(id, change))
    }

    fn remove_schedule(&self, id: ScheduleId) -> StoreFuture<'_, bool> {
        self.write(|store| store.remove_schedule(id))
    }

    fn advance_schedule(&self, advance: ScheduleAdvance) -> StoreFuture<'_, bool> {
        self.write(|store| store.advance_schedule(advance))
    }

    fn put_occurrence(&self, schedule: ScheduleId, occurrence: Occurrence) -> StoreFuture<'_, ()> {
        self.write(|store| store.put_occurrence(schedule, occurrence))
    }

    fn occurrences(&self, schedule: ScheduleId, limit: usize) -> StoreFuture<'_, Vec<Occurrence>> {
        self.unless_failing(|store| store.occurrences(schedule, limit))
    }
}
