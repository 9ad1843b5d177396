//! The store in one SQLite file that several processes may open.
//!
//! All writes of a process go through one thread, which commits everything that is queued in one
//! transaction; reads use a few connections of their own. A process that only reads has no such
//! thread. Ownership of a session is a row that names an [owner](crate::owners) and an epoch; it is
//! checked in the same transaction as the owner's writes.
//!
//! - `open`, `migrations`: open a connection and bring the schema up to date.
//! - `writer`: the writer thread; `readers`: the read connections; `checkpoint`: the thread that
//!   moves the write-ahead log into the database.
//! - `write`, `read`: the statements; `open_text`: the text of unfinished blocks; `claims`:
//!   idempotency keys; `approvals`: approval requests and decisions; `rules`: rules that people
//!   granted for good; `schedules`: schedules and their occurrences; `session_list`: sessions with
//!   the fields of lists, and ids by their prefix; `callers`: conversation hashes and costs of the
//!   callers of model APIs; `usage`, `usage_report`: the usage of turns and its sums; `quotas`: the
//!   newest quota reports; `browsers`: the browsers of the owner; `search`: the full-text index of
//!   conversations.
//! - `columns`: the values in the columns; their JSON is written by the modules beside this one.
//! - `error`: the messages that people get when SQLite fails.

mod approvals;
mod audit;
mod browsers;
mod callers;
mod checkpoint;
mod claims;
mod columns;
mod error;
mod migrations;
mod open;
mod open_text;
mod quotas;
mod read;
mod readers;
mod rules;
mod schedules;
mod search;
mod session_list;
#[cfg(test)]
mod tests;
mod usage;
mod usage_report;
mod write;
mod writer;

use std::{path::Path, sync::Arc};

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

pub use self::open::OpenStoreError;
use self::{readers::Readers, writer::Writer};
use super::{content_json, event_json, outcome_json, spec_json};
use crate::owners::{OwnerLock, OwnerRegistry};

/// Sessions, turns and events in one SQLite file; one value per process.
#[derive(Debug)]
pub struct SqliteStore {
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the file, creating or migrating it where needed. Sessions that this process acquires
    /// are held in the name of `owner`. Blocks, for a few milliseconds at most unless another
    /// process is migrating.
    pub fn open(path: &Path, owner: Arc<OwnerLock>) -> Result<Self, OpenStoreError> {
        let path: Arc<Path> = path.into();
        let connection = open::open_writable(&path)?;
        let writer = Writer::start(connection, &path, owner)?;
        Ok(Self { readers: Readers::new(path), writer })
    }

    /// Opens the file for a process that will hardly write: as long as it writes nothing, it has
    /// one connection, no thread, and is no owner. Its first write makes it an owner, whom
    /// `command` names. A file that must be created or migrated is opened for writing at once.
    pub fn open_for_reading(
        path: &Path,
        owners: &OwnerRegistry,
        command: &'static str,
    ) -> Result<Self, OpenStoreError> {
        let path: Arc<Path> = path.into();
        let Some(connection) = open::open_up_to_date(&path) else {
            return Self::open(&path, Arc::new(owners.register(command)?));
        };
        let writer = Writer::with_first_job(&path, owners, command);
        Ok(Self { readers: Readers::with_idle(path, vec![connection]), writer })
    }
}

impl Store for SqliteStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()> {
        let session = session.clone();
        Box::pin(self.writer.write(move |db| write::create_session(db, &session)))
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64> {
        let session = session.clone();
        Box::pin(self.writer.write(move |db| write::put_session(db, &session)))
    }

    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>> {
        self.readers.look_up(move |db| read::session(db, id))
    }

    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>> {
        Box::pin(self.readers.read(move |db| read::sessions(db, page)))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionSummary>> {
        // One session is found by an index.
        if let SessionQuery::One(_) = query {
            return self.readers.look_up(move |db| session_list::list(db, &query));
        }
        Box::pin(self.readers.read(move |db| session_list::list(db, &query)))
    }

    fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreFuture<'_, Vec<uuid::Uuid>> {
        self.readers.look_up(move |db| session_list::find_ids(db, kind, prefix, limit))
    }

    fn neighbours(
        &self,
        kind: RecordKind,
        ids: Vec<uuid::Uuid>,
    ) -> StoreFuture<'_, Vec<[Option<uuid::Uuid>; 2]>> {
        self.readers.look_up(move |db| session_list::neighbours(db, kind, &ids))
    }

    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |db| write::delete_session(db, id)))
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId> {
        let name = name.clone();
        Box::pin(self.writer.write(move |db| write::bind_name(db, &name, session)))
    }

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>> {
        self.readers.look_up(move |db| read::session_by_name(db, name))
    }

    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease> {
        Box::pin(self.writer.write(move |db| write::acquire(db, session)))
    }

    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |db| write::release(db, &lease)))
    }

    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome> {
        let (lease, new) = (lease.clone(), new.clone());
        Box::pin(self.writer.write(move |db| claims::create_turn(db, &lease, &new)))
    }

    fn check_claim<'a>(&'a self, claim: &'a RequestClaim) -> StoreFuture<'a, ClaimOutcome> {
        self.readers
            .look_up(move |db| Ok(claims::find_claim(db, claim)?.unwrap_or(ClaimOutcome::New)))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> StoreFuture<'a, ()> {
        let (lease, state) = (lease.clone(), state.clone());
        Box::pin(self.writer.write(move |db| write::set_turn_state(db, &lease, turn, &state)))
    }

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>> {
        self.readers.look_up(move |db| read::turn(db, id))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        let query = move |db: &rusqlite::Connection| read::turns(db, session, page);
        // One row of one session is found by an index.
        if session.is_some() && page.limit == 1 {
            return self.readers.look_up(query);
        }
        Box::pin(self.readers.read(query))
    }

    fn find_turns(&self, filter: TurnFilter, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        Box::pin(self.readers.read(move |db| read::find_turns(db, &filter, page)))
    }

    fn append_after<'a>(
        &'a self,
        lease: &'a Lease,
        earlier: Vec<Seq>,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        let lease = lease.clone();
        Box::pin(self.writer.queue(move |db| {
            if let Some(first) = events.first() {
                write::check_recorded(db, first.turn, &earlier)?;
            }
            write::append(db, &lease, &events)
        }))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>> {
        Box::pin(self.readers.read(move |db| read::replay(db, turn, after, limit)))
    }

    fn save_open_text<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        pieces: Vec<OpenText>,
    ) -> StoreFuture<'a, PendingCommit> {
        let lease = lease.clone();
        Box::pin(self.writer.queue(move |db| open_text::insert(db, &lease, turn, &pieces)))
    }

    fn open_text(&self, turn: TurnId) -> StoreFuture<'_, Vec<OpenText>> {
        Box::pin(self.readers.read(move |db| open_text::read(db, turn)))
    }

    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>> {
        Box::pin(self.readers.read(move |db| approvals::list_approvals(db, which, page)))
    }

    fn add_rule<'a>(&'a self, rule: &'a StoredRule) -> StoreFuture<'a, ()> {
        let rule = rule.clone();
        Box::pin(self.writer.write(move |db| rules::add_rule(db, &rule)))
    }

    fn rules(&self) -> StoreFuture<'_, Vec<StoredRule>> {
        Box::pin(self.readers.read(rules::list_rules))
    }

    fn remove_rule(&self, id: uuid::Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.writer.write(move |db| rules::remove_rule(db, id)))
    }

    fn index_history<'a>(&'a self, note: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit> {
        let note = note.clone();
        Box::pin(self.writer.queue(move |db| callers::note_history(db, &note)))
    }

    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>> {
        self.readers.look_up(move |db| callers::find_by_history(db, hash, limit))
    }

    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64> {
        let caller = caller.to_owned();
        Box::pin(self.readers.read(move |db| callers::total_cost(db, &caller, since)))
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageTotals>> {
        Box::pin(self.readers.read(move |db| usage_report::totals(db, query)))
    }

    fn cold_starts(&self, query: UsageQuery, limit: usize) -> StoreFuture<'_, Vec<ColdStart>> {
        Box::pin(self.readers.read(move |db| usage_report::cold_starts(db, query, limit)))
    }

    fn save_quota(&self, quota: Quota) -> StoreFuture<'_, PendingCommit> {
        Box::pin(self.writer.queue(move |db| quotas::save(db, &quota)))
    }

    fn quotas(&self) -> StoreFuture<'_, Vec<Quota>> {
        Box::pin(self.readers.read(quotas::list))
    }

    fn search(&self, query: SearchQuery) -> StoreFuture<'_, Vec<SearchMatch>> {
        Box::pin(async move {
            while self.readers.read(search::has_unindexed_turns).await? {
                self.writer.write(search::index_turns).await?;
            }
            self.readers.read(move |db| search::find(db, &query)).await
        })
    }

    fn maintain_search(&self) -> StoreFuture<'_, SearchUpkeep> {
        Box::pin(async {
            // Most calls find nothing to do, and must not wait for the writer.
            match self.readers.read(search::what_is_left).await? {
                SearchUpkeep::Complete => Ok(SearchUpkeep::Complete),
                _ => self.writer.write(search::maintain).await,
            }
        })
    }

    fn resumable_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>> {
        Box::pin(self.readers.read(move |db| read::resumable_turns(db, session)))
    }

    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>> {
        let owners = self.writer.owners().clone();
        Box::pin(self.readers.read(move |db| read::lost_turns(db, &owners)))
    }

    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>> {
        Box::pin(self.readers.read(move |db| read::stale_sessions(db, before)))
    }

    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |db| audit::insert(db, &entry)))
    }

    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>> {
        Box::pin(self.readers.read(move |db| audit::list(db, query)))
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.writer.write(write::write_check).await?;
            self.writer.write(write::delete_write_check).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.readers.close();
            self.writer.close().await;
        })
    }
}
