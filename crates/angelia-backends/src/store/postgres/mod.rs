//! The store in a Postgres database (`docs/design/0044-postgres-store.md`).
//!
//! - `address`: where the database is and how it is reached; `open`: opens it, and runs the thread that
//!   all connections live on; `connection`: one of them; `migrations`: the schema.
//! - `groups`: the connection that commits in groups; `alone`: the one that commits single jobs;
//!   `link`: what both do when a connection is lost, with the `ledger` of their commits and the
//!   `owner_row` that they lock; `readers`: the connections that read.
//! - `turns`: the statements of groups; `sessions`, `claims`: those of sessions and new turns; `read`,
//!   `session_list`: what is read of them; `approvals`, `rules`, `schedules`, `callers`, `usage`,
//!   `usage_report`, `quotas`, `browsers`, `audit`, `search`: as in SQLite.
//! - `columns`: the values in the columns; `error`: the messages that people get.

mod address;
mod alone;
mod approvals;
mod audit;
mod browsers;
mod callers;
mod claims;
mod columns;
mod connection;
mod error;
mod groups;
mod ledger;
mod link;
mod migrations;
mod open;
mod owner_row;
mod quotas;
mod read;
mod readers;
mod rules;
mod schedules;
mod search;
mod session_list;
mod sessions;
mod turns;
mod usage;
mod usage_report;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use angelia_core::{
    model::{
        ApprovalRecord, AuditEntry, AuditRecord, ColdStart, ExternalName, IdPrefix, Quota,
        SearchMatch, SearchQuery, Seq, SessionId, SessionRecord, SessionSummary, StoredRule,
        TurnEvent, TurnId, TurnRecord, TurnState, UsageQuery, UsageTotals,
    },
    ports::{
        ApprovalFilter, AuditQuery, BoxFuture, ClaimOutcome, HistoryEntry, Lease, NewTurn,
        OpenText, Page, PendingCommit, RecordKind, RequestClaim, SearchUpkeep, SessionQuery, Store,
        StoreFuture, TurnFilter,
    },
};
use jiff::Timestamp;
use tokio::sync::mpsc;

pub use self::{
    address::{PostgresAddress, StoreAddressError},
    open::OpenPostgresError,
    owner_row::Machine,
};
use self::{
    alone::AloneQueue,
    groups::{Calls, GroupQueue},
    open::Setup,
    readers::Readers,
    turns::LeaseKey,
};
use super::writer_owner::WriterOwner;
use crate::owners::{OwnerLock, OwnerRegistry};

/// Sessions, turns and events in a Postgres database; one value per process.
#[derive(Debug)]
pub struct PostgresStore {
    readers: Readers,
    groups: GroupQueue,
    alone: AloneQueue,
    machine: Machine,
    owners: OwnerRegistry,
    /// The id that this process writes with, once it does.
    owner_id: Arc<OnceLock<Arc<str>>>,
    is_abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PostgresStore {
    /// Opens the database, creating or migrating the tables where needed. Sessions that this process
    /// acquires are held in the name of `owner`. Blocks until the server has answered.
    pub fn open(
        address: PostgresAddress,
        machine: Machine,
        owner: Arc<OwnerLock>,
    ) -> Result<Self, OpenPostgresError> {
        Self::start(address, machine, WriterOwner::Registered(owner))
    }

    /// Opens the database for a process that will hardly write: its first write makes it an owner, whom
    /// `command` names.
    pub fn open_for_reading(
        address: PostgresAddress,
        machine: Machine,
        owners: &OwnerRegistry,
        command: &'static str,
    ) -> Result<Self, OpenPostgresError> {
        let owner = WriterOwner::WithFirstJob { owners: owners.clone(), command };
        Self::start(address, machine, owner)
    }

    fn start(
        address: PostgresAddress,
        machine: Machine,
        writer_owner: WriterOwner,
    ) -> Result<Self, OpenPostgresError> {
        let (groups, of_groups) = groups::queue();
        let (alone, of_alone) = alone::queue();
        let (requests, of_requests) = mpsc::channel(1);
        let (owner_id, is_abandoned) = (Arc::default(), Arc::default());
        let owners = writer_owner.registry().clone();
        let readers = Readers::new(address.clone(), requests, Arc::clone(&is_abandoned));
        let thread = open::start(Setup {
            address,
            machine: machine.clone(),
            writer_owner,
            groups: of_groups,
            alone: of_alone,
            requests: of_requests,
            owner_id: Arc::clone(&owner_id),
            is_abandoned: Arc::clone(&is_abandoned),
        })?;
        let thread = Some(thread);
        Ok(Self { readers, groups, alone, machine, owners, owner_id, is_abandoned, thread })
    }

    /// What the writes of a lease are checked against. A process without an id has no lease.
    fn key(&self, lease: &Lease) -> LeaseKey {
        let owner = self.owner_id.get().map(ToString::to_string).unwrap_or_default();
        LeaseKey { owner, lease: lease.clone() }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
        self.readers.close();
        // Without their senders the queues end, after what is in them has been written.
        self.groups = groups::queue().0;
        self.alone = alone::queue().0;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Store for PostgresStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()> {
        Box::pin(async { self.groups.write(sessions::create(session)?).await })
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64> {
        Box::pin(async {
            let (session, body) = (session.clone(), sessions::encoded_spec(session)?);
            self.alone.write(async move |db| sessions::put(db, &session, &body).await).await
        })
    }

    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>> {
        Box::pin(read::session(&self.readers, id))
    }

    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>> {
        Box::pin(read::sessions(&self.readers, page))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionSummary>> {
        Box::pin(async move { session_list::list(&self.readers, &query).await })
    }

    fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreFuture<'_, Vec<uuid::Uuid>> {
        Box::pin(session_list::find_ids(&self.readers, kind, prefix, limit))
    }

    fn neighbours(
        &self,
        kind: RecordKind,
        ids: Vec<uuid::Uuid>,
    ) -> StoreFuture<'_, Vec<[Option<uuid::Uuid>; 2]>> {
        Box::pin(async move { session_list::neighbours(&self.readers, kind, &ids).await })
    }

    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()> {
        Box::pin(self.alone.write(async move |db| sessions::delete(db, id).await))
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId> {
        let name = name.clone();
        Box::pin(self.alone.write(async move |db| sessions::bind_name(db, &name, session).await))
    }

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>> {
        Box::pin(async {
            let (scope, name) = (name.scope.as_bytes(), name.name.as_bytes());
            let id = |row: &tokio_postgres::Row| columns::session_id(row, 0);
            let found = self.readers.read(sessions::FIND_BY_NAME, &[&scope, &name], id).await?;
            Ok(found.first().copied())
        })
    }

    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease> {
        Box::pin(self.alone.write(async move |db| sessions::acquire(db, session).await))
    }

    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()> {
        let owner = self.key(&lease).owner;
        Box::pin(async move { self.groups.write(sessions::release(&owner, &lease)).await })
    }

    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome> {
        Box::pin(async {
            let Some(claim) = new.claim.clone() else {
                self.groups.write(turns::create(&self.key(lease), new)?).await?;
                return Ok(ClaimOutcome::New);
            };
            let insertion = claims::insertion(new)?;
            let (lease, new) = (lease.clone(), new.clone());
            let work = async move |db: &alone::Transaction<'_>| {
                claims::create_turn(db, &lease, &new, &claim, &insertion).await
            };
            self.alone.write(work).await
        })
    }

    fn check_claim<'a>(&'a self, claim: &'a RequestClaim) -> StoreFuture<'a, ClaimOutcome> {
        Box::pin(claims::check(&self.readers, claim))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.groups.write(turns::set_state(&self.key(lease), turn, state)?).await
        })
    }

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>> {
        Box::pin(read::turn(&self.readers, id))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        Box::pin(read::turns(&self.readers, session, page))
    }

    fn find_turns(&self, filter: TurnFilter, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        Box::pin(async move { read::find_turns(&self.readers, &filter, page).await })
    }

    fn append_after<'a>(
        &'a self,
        lease: &'a Lease,
        earlier: Vec<Seq>,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        Box::pin(async move {
            match turns::append(&self.key(lease), &earlier, &events) {
                Ok(calls) => self.groups.queue(calls).await,
                Err(error) => Ok(PendingCommit::ready(Err(error))),
            }
        })
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>> {
        Box::pin(read::replay(&self.readers, turn, after, limit))
    }

    fn save_open_text<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        pieces: Vec<OpenText>,
    ) -> StoreFuture<'a, PendingCommit> {
        let calls = turns::save_open_text(&self.key(lease), turn, &pieces);
        Box::pin(self.groups.queue(calls))
    }

    fn open_text(&self, turn: TurnId) -> StoreFuture<'_, Vec<OpenText>> {
        Box::pin(read::open_text(&self.readers, turn))
    }

    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>> {
        Box::pin(approvals::list(&self.readers, which, page))
    }

    fn add_rule<'a>(&'a self, rule: &'a StoredRule) -> StoreFuture<'a, ()> {
        let rule = rule.clone();
        Box::pin(self.alone.write(async move |db| rules::add(db, &rule).await))
    }

    fn rules(&self) -> StoreFuture<'_, Vec<StoredRule>> {
        Box::pin(rules::list(&self.readers))
    }

    fn remove_rule(&self, id: uuid::Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.alone.write(async move |db| rules::remove(db, id).await))
    }

    fn index_history<'a>(&'a self, entry: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit> {
        let mut calls = Calls::default();
        turns::insert_history(&mut calls, entry);
        Box::pin(self.groups.queue(calls))
    }

    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>> {
        Box::pin(callers::find_by_history(&self.readers, hash, limit))
    }

    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64> {
        Box::pin(callers::total_cost(&self.readers, caller, since))
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageTotals>> {
        Box::pin(usage_report::totals(&self.readers, query))
    }

    fn cold_starts(&self, query: UsageQuery, limit: usize) -> StoreFuture<'_, Vec<ColdStart>> {
        Box::pin(usage_report::cold_starts(&self.readers, query, limit))
    }

    fn save_quota(&self, quota: Quota) -> StoreFuture<'_, PendingCommit> {
        Box::pin(self.alone.queue(async move |db| quotas::save(db, &quota).await))
    }

    fn quotas(&self) -> StoreFuture<'_, Vec<Quota>> {
        Box::pin(quotas::list(&self.readers))
    }

    fn search(&self, query: SearchQuery) -> StoreFuture<'_, Vec<SearchMatch>> {
        Box::pin(async move {
            while search::what_is_left(&self.readers).await? != SearchUpkeep::Complete {
                self.alone.write(search::index_turns).await?;
            }
            search::find(&self.readers, &query).await
        })
    }

    fn maintain_search(&self) -> StoreFuture<'_, SearchUpkeep> {
        Box::pin(async {
            // Most calls find nothing to do, and must not wait for the writer.
            let left = search::what_is_left(&self.readers).await?;
            if left == SearchUpkeep::Complete {
                return Ok(left);
            }
            self.alone.write(search::index_turns).await?;
            search::what_is_left(&self.readers).await
        })
    }

    fn resumable_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>> {
        Box::pin(read::resumable_turns(&self.readers, session))
    }

    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>> {
        Box::pin(read::lost_turns(&self.readers, &self.machine, &self.owners))
    }

    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>> {
        Box::pin(read::stale_sessions(&self.readers, before))
    }

    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.groups.write(audit::insert(&entry)).await })
    }

    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>> {
        Box::pin(audit::list(&self.readers, query))
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.groups.write(turns::check_writable()))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.readers.close();
            // Both at once: either ends the thread only together with the other.
            tokio::join!(self.groups.close(), self.alone.close());
        })
    }
}
