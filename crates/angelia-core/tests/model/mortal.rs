//! The store as one process sees it. The process may be killed: from then on it can neither read
//! nor write, and its leases have no owner.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use angelia_core::{
    model::{
        ApprovalRecord, ExternalName, Seq, SessionId, SessionRecord, TurnEvent, TurnId, TurnRecord,
        TurnState,
    },
    ports::{
        Approvals, BoxFuture, Claim, Claimed, Committed, HistoryNote, Lease, Page, Store,
        StoreError,
    },
};
use jiff::Timestamp;

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

pub(crate) struct Mortal {
    store: Arc<dyn Store>,
    is_dead: AtomicBool,
    leases: Mutex<Vec<Lease>>,
}

impl Mortal {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, is_dead: AtomicBool::new(false), leases: Mutex::default() }
    }

    pub(crate) async fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        let leases = std::mem::take(&mut *self.leases.lock().unwrap());
        for lease in leases {
            self.store.release(lease).await.unwrap();
        }
    }

    fn alive<'a, T: 'a>(
        &'a self,
        answer: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        if self.is_dead.load(Ordering::SeqCst) {
            let message = "killed".to_owned();
            return Box::pin(async { Err(StoreError::Failed { message }) });
        }
        answer(&*self.store)
    }
}

impl Store for Mortal {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, ()> {
        self.alive(|store| store.create_session(session))
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, u64> {
        self.alive(|store| store.put_session(session))
    }

    fn session(&self, id: SessionId) -> Answer<'_, Option<SessionRecord>> {
        self.alive(|store| store.session(id))
    }

    fn sessions(&self, page: Page) -> Answer<'_, Vec<SessionRecord>> {
        self.alive(|store| store.sessions(page))
    }

    fn delete_session(&self, id: SessionId) -> Answer<'_, ()> {
        self.alive(|store| store.delete_session(id))
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> Answer<'a, SessionId> {
        self.alive(|store| store.bind_name(name, session))
    }

    fn named<'a>(&'a self, name: &'a ExternalName) -> Answer<'a, Option<SessionId>> {
        self.alive(|store| store.named(name))
    }

    fn acquire(&self, session: SessionId) -> Answer<'_, Lease> {
        let acquire = self.alive(|store| store.acquire(session));
        Box::pin(async {
            let lease = acquire.await?;
            self.leases.lock().unwrap().push(lease.clone());
            Ok(lease)
        })
    }

    fn release(&self, lease: Lease) -> Answer<'_, ()> {
        self.leases.lock().unwrap().retain(|held| *held != lease);
        self.alive(|store| store.release(lease))
    }

    fn create_turn<'a>(&'a self, lease: &'a Lease, turn: &'a TurnRecord) -> Answer<'a, Committed> {
        self.alive(|store| store.create_turn(lease, turn))
    }

    fn create_turn_once<'a>(
        &'a self,
        lease: &'a Lease,
        turn: &'a TurnRecord,
        claim: &'a Claim,
    ) -> Answer<'a, Claimed> {
        self.alive(|store| store.create_turn_once(lease, turn, claim))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> Answer<'a, ()> {
        self.alive(|store| store.set_turn_state(lease, turn, state))
    }

    fn turn(&self, id: TurnId) -> Answer<'_, Option<TurnRecord>> {
        self.alive(|store| store.turn(id))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> Answer<'_, Vec<TurnRecord>> {
        self.alive(|store| store.turns(session, page))
    }

    fn append<'a>(&'a self, lease: &'a Lease, events: Vec<TurnEvent>) -> Answer<'a, Committed> {
        self.alive(|store| store.append(lease, events))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> Answer<'_, Vec<TurnEvent>> {
        self.alive(|store| store.replay(turn, after, limit))
    }

    fn approvals(&self, which: Approvals, page: Page) -> Answer<'_, Vec<ApprovalRecord>> {
        self.alive(|store| store.approvals(which, page))
    }

    fn note_history<'a>(&'a self, note: &'a HistoryNote) -> Answer<'a, Committed> {
        self.alive(|store| store.note_history(note))
    }

    fn with_history(&self, hash: [u8; 32], limit: usize) -> Answer<'_, Vec<HistoryNote>> {
        self.alive(|store| store.with_history(hash, limit))
    }

    fn spent<'a>(&'a self, caller: &'a str, since: Timestamp) -> Answer<'a, f64> {
        self.alive(|store| store.spent(caller, since))
    }

    fn parked_turns(&self, session: Option<SessionId>) -> Answer<'_, Vec<TurnRecord>> {
        self.alive(|store| store.parked_turns(session))
    }

    fn lost_turns(&self) -> Answer<'_, Vec<TurnRecord>> {
        self.alive(|store| store.lost_turns())
    }

    fn stale_sessions(&self, before: Timestamp) -> Answer<'_, Vec<SessionRecord>> {
        self.alive(|store| store.stale_sessions(before))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
