//! The store as one process sees it. The test can make it fail for a while, or kill the process:
//! from then on it can neither read nor write, and its leases have no owner.
#![expect(clippy::unwrap_used, reason = "a test double fails by panicking")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use angelia_core::{
    model::{
        ApprovalRecord, AuditEntry, AuditRecord, ExternalName, Seq, SessionId, SessionRecord,
        TurnEvent, TurnId, TurnRecord, TurnState,
    },
    ports::{
        ApprovalFilter, AuditQuery, BoxFuture, ClaimOutcome, HistoryEntry, Lease, NewTurn, Page,
        PendingCommit, RequestClaim, Store, StoreError, StoreFuture,
    },
};
use jiff::Timestamp;

pub struct UnreliableStore {
    store: Arc<dyn Store>,
    is_failing: AtomicBool,
    leases: Mutex<Vec<Lease>>,
}

impl UnreliableStore {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, is_failing: AtomicBool::new(false), leases: Mutex::default() }
    }

    /// Makes every call fail until it is set to `false` again.
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

impl std::fmt::Debug for UnreliableStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnreliableStore").finish_non_exhaustive()
    }
}

impl Store for UnreliableStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()> {
        self.unless_failing(|store| store.create_session(session))
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64> {
        self.unless_failing(|store| store.put_session(session))
    }

    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>> {
        self.unless_failing(|store| store.session(id))
    }

    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>> {
        self.unless_failing(|store| store.sessions(page))
    }

    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()> {
        self.unless_failing(|store| store.delete_session(id))
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId> {
        self.unless_failing(|store| store.bind_name(name, session))
    }

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>> {
        self.unless_failing(|store| store.find_by_name(name))
    }

    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease> {
        let acquire = self.unless_failing(|store| store.acquire_lease(session));
        Box::pin(async {
            let lease = acquire.await?;
            self.leases.lock().unwrap().push(lease.clone());
            Ok(lease)
        })
    }

    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()> {
        self.leases.lock().unwrap().retain(|held| *held != lease);
        self.unless_failing(|store| store.release_lease(lease))
    }

    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome> {
        self.unless_failing(|store| store.create_turn(lease, new))
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
        self.unless_failing(|store| store.set_turn_state(lease, turn, state))
    }

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>> {
        self.unless_failing(|store| store.turn(id))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.turns(session, page))
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        self.unless_failing(|store| store.append(lease, events))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>> {
        self.unless_failing(|store| store.replay(turn, after, limit))
    }

    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>> {
        self.unless_failing(|store| store.approvals(which, page))
    }

    fn index_history<'a>(&'a self, entry: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit> {
        self.unless_failing(|store| store.index_history(entry))
    }

    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>> {
        self.unless_failing(|store| store.find_by_history(hash, limit))
    }

    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64> {
        self.unless_failing(|store| store.cost_since(caller, since))
    }

    fn parked_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.parked_turns(session))
    }

    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.unless_failing(|store| store.lost_turns())
    }

    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>> {
        self.unless_failing(|store| store.stale_sessions(before))
    }

    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()> {
        self.unless_failing(|store| store.record_audit(entry))
    }

    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>> {
        self.unless_failing(|store| store.audit(query))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
