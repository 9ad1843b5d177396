//! The store in one SQLite file that several processes may open.
//!
//! All writes of a process go through one thread, which commits everything that is queued in one
//! transaction; reads use a few connections of their own. Ownership of a session is a row that
//! names an [owner](crate::owners) and an epoch; it is checked in the same transaction as the
//! owner's writes.
//!
//! - `open`, `migrations`: open a connection and bring the schema up to date.
//! - `writer`: the writer thread; `readers`: the read connections; `checkpoint`: the thread that
//!   moves the write-ahead log into the database.
//! - `write`, `read`: the statements; `claims`: idempotency keys; `approvals`: approval requests
//!   and decisions; `callers`: conversation hashes and costs of the callers of model APIs.
//! - `event_json`, `spec_json`, `content_json`, `outcome_json`, `limits_json`, `columns`: the
//!   values in the columns.
//! - `error`: the messages that people get when SQLite fails.

mod approvals;
mod callers;
mod checkpoint;
mod claims;
mod content_json;
mod event_json;
mod limits_json;
mod migrations;
mod open;
mod outcome_json;
mod read;
mod readers;
mod spec_json;
#[cfg(test)]
mod tests;
mod trouble;
mod words;
mod write;
mod writer;

use std::{path::Path, sync::Arc};

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

pub use self::open::OpenError;
use self::{readers::Readers, writer::Writer};
use crate::owners::OwnerLock;

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Sessions, turns and events in one SQLite file; one value per process.
#[derive(Debug)]
pub struct SqliteStore {
    owner: Arc<OwnerLock>,
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the file, creating or migrating it where needed. Sessions that this process acquires
    /// are held in the name of `owner`. Blocks, for a few milliseconds at most unless another
    /// process is migrating.
    pub fn open(path: &Path, owner: Arc<OwnerLock>) -> Result<Self, OpenError> {
        let path: Arc<Path> = path.into();
        let connection = open::writable(&path)?;
        let writer = Writer::start(connection, &path, Arc::clone(&owner))?;
        Ok(Self { owner, readers: Readers::new(path), writer })
    }
}

impl Store for SqliteStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, ()> {
        let session = session.clone();
        Box::pin(self.writer.write(move |db| write::create_session(db, &session)))
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, u64> {
        let session = session.clone();
        Box::pin(self.writer.write(move |db| write::put_session(db, &session)))
    }

    fn session(&self, id: SessionId) -> Answer<'_, Option<SessionRecord>> {
        self.readers.look_up(move |db| read::session(db, id))
    }

    fn sessions(&self, page: Page) -> Answer<'_, Vec<SessionRecord>> {
        Box::pin(self.readers.read(move |db| read::sessions(db, page)))
    }

    fn delete_session(&self, id: SessionId) -> Answer<'_, ()> {
        Box::pin(self.writer.write(move |db| write::delete_session(db, id)))
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> Answer<'a, SessionId> {
        let name = name.clone();
        Box::pin(self.writer.write(move |db| write::bind_name(db, &name, session)))
    }

    fn named<'a>(&'a self, name: &'a ExternalName) -> Answer<'a, Option<SessionId>> {
        self.readers.look_up(move |db| read::named(db, name))
    }

    fn acquire(&self, session: SessionId) -> Answer<'_, Lease> {
        Box::pin(self.writer.write(move |db| write::acquire(db, session)))
    }

    fn release(&self, lease: Lease) -> Answer<'_, ()> {
        Box::pin(self.writer.write(move |db| write::release(db, &lease)))
    }

    fn create_turn<'a>(&'a self, lease: &'a Lease, turn: &'a TurnRecord) -> Answer<'a, Committed> {
        let (lease, turn) = (lease.clone(), turn.clone());
        Box::pin(self.writer.queue(move |db| write::create_turn(db, &lease, &turn)))
    }

    fn create_turn_once<'a>(
        &'a self,
        lease: &'a Lease,
        turn: &'a TurnRecord,
        claim: &'a Claim,
    ) -> Answer<'a, Claimed> {
        let (lease, turn, claim) = (lease.clone(), turn.clone(), claim.clone());
        Box::pin(self.writer.write(move |db| claims::create_turn_once(db, &lease, &turn, &claim)))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> Answer<'a, ()> {
        let (lease, state) = (lease.clone(), state.clone());
        Box::pin(self.writer.write(move |db| write::set_turn_state(db, &lease, turn, &state)))
    }

    fn turn(&self, id: TurnId) -> Answer<'_, Option<TurnRecord>> {
        self.readers.look_up(move |db| read::turn(db, id))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> Answer<'_, Vec<TurnRecord>> {
        let query = move |db: &rusqlite::Connection| read::turns(db, session, page);
        // One row of one session is found by an index.
        if session.is_some() && page.limit == 1 {
            return self.readers.look_up(query);
        }
        Box::pin(self.readers.read(query))
    }

    fn append<'a>(&'a self, lease: &'a Lease, events: Vec<TurnEvent>) -> Answer<'a, Committed> {
        let lease = lease.clone();
        Box::pin(self.writer.queue(move |db| write::append(db, &lease, &events)))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> Answer<'_, Vec<TurnEvent>> {
        Box::pin(self.readers.read(move |db| read::replay(db, turn, after, limit)))
    }

    fn approvals(&self, which: Approvals, page: Page) -> Answer<'_, Vec<ApprovalRecord>> {
        Box::pin(self.readers.read(move |db| approvals::approvals(db, which, page)))
    }

    fn note_history<'a>(&'a self, note: &'a HistoryNote) -> Answer<'a, Committed> {
        let note = note.clone();
        Box::pin(self.writer.queue(move |db| callers::note_history(db, &note)))
    }

    fn with_history(&self, hash: [u8; 32], limit: usize) -> Answer<'_, Vec<HistoryNote>> {
        self.readers.look_up(move |db| callers::with_history(db, hash, limit))
    }

    fn spent<'a>(&'a self, caller: &'a str, since: Timestamp) -> Answer<'a, f64> {
        let caller = caller.to_owned();
        Box::pin(self.readers.read(move |db| callers::spent(db, &caller, since)))
    }

    fn parked_turns(&self, session: Option<SessionId>) -> Answer<'_, Vec<TurnRecord>> {
        Box::pin(self.readers.read(move |db| read::parked_turns(db, session)))
    }

    fn lost_turns(&self) -> Answer<'_, Vec<TurnRecord>> {
        let owner = Arc::clone(&self.owner);
        Box::pin(self.readers.read(move |db| read::lost_turns(db, owner.owners())))
    }

    fn stale_sessions(&self, before: Timestamp) -> Answer<'_, Vec<SessionRecord>> {
        Box::pin(self.readers.read(move |db| read::stale_sessions(db, before)))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.readers.close();
            self.writer.close().await;
        })
    }
}
