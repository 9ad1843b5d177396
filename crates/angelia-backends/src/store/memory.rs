//! A store in memory, for one process. It follows the same rules as the store on disk; the
//! conformance suite checks both.

mod kept;

use std::{
    future::ready,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
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

use self::kept::{Kept, KeptSession, NO_SESSION, refuse_finished};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Sessions, turns and events in memory; they are lost when the process ends.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `work` on the data at once, unless the store is closed.
    fn answer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Kept) -> Result<T, StoreError>,
    ) -> Answer<'_, T> {
        let mut kept = self.lock();
        let answer = if kept.is_closed {
            Err(StoreError::Failed {
                message: "the store has been closed; start angelia again".to_owned(),
            })
        } else {
            work(&mut kept)
        };
        Box::pin(ready(answer))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, ()> {
        self.answer(|kept| {
            if kept.sessions.contains_key(&session.id) {
                return Err(StoreError::Conflict);
            }
            let new = KeptSession { record: session.clone(), is_held: false, epoch: 0 };
            kept.sessions.insert(session.id, new);
            Ok(())
        })
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, u64> {
        self.answer(|kept| {
            let current = kept.session(session.id)?;
            if current.record.revision != session.revision {
                return Err(StoreError::Conflict);
            }
            current.record = session.clone();
            current.record.revision += 1;
            Ok(current.record.revision)
        })
    }

    fn session(&self, id: SessionId) -> Answer<'_, Option<SessionRecord>> {
        self.answer(|kept| Ok(kept.sessions.get(&id).map(|session| session.record.clone())))
    }

    fn sessions(&self, page: Page) -> Answer<'_, Vec<SessionRecord>> {
        self.answer(|kept| {
            let newest_first = kept.sessions.values().rev().map(|session| &session.record);
            Ok(newest_first
                .filter(|record| page.before.is_none_or(|before| record.id.as_uuid() < before))
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn delete_session(&self, id: SessionId) -> Answer<'_, ()> {
        self.answer(|kept| {
            kept.sessions.remove(&id).ok_or(NO_SESSION)?;
            kept.forget_session(id);
            Ok(())
        })
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> Answer<'a, SessionId> {
        self.answer(|kept| {
            kept.session(session)?;
            Ok(*kept.names.entry(name.clone()).or_insert(session))
        })
    }

    fn named<'a>(&'a self, name: &'a ExternalName) -> Answer<'a, Option<SessionId>> {
        self.answer(|kept| Ok(kept.names.get(name).copied()))
    }

    fn acquire(&self, session: SessionId) -> Answer<'_, Lease> {
        self.answer(|kept| {
            let current = kept.session(session)?;
            current.is_held = true;
            current.epoch += 1;
            Ok(Lease { session, epoch: current.epoch })
        })
    }

    fn release(&self, lease: Lease) -> Answer<'_, ()> {
        self.answer(|kept| {
            if kept.check_lease(&lease).is_ok() {
                kept.session(lease.session)?.is_held = false;
            }
            Ok(())
        })
    }

    fn create_turn<'a>(&'a self, lease: &'a Lease, turn: &'a TurnRecord) -> Answer<'a, Committed> {
        self.answer(|kept| Ok(Committed::at_once(kept.create_turn(lease, turn))))
    }

    fn create_turn_once<'a>(
        &'a self,
        lease: &'a Lease,
        turn: &'a TurnRecord,
        claim: &'a Claim,
    ) -> Answer<'a, Claimed> {
        self.answer(|kept| kept.create_turn_once(lease, turn, claim))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> Answer<'a, ()> {
        self.answer(|kept| {
            let turn = kept.open_turn(lease, turn)?;
            refuse_finished(state)?;
            turn.record.state = state.clone();
            Ok(())
        })
    }

    fn turn(&self, id: TurnId) -> Answer<'_, Option<TurnRecord>> {
        self.answer(|kept| Ok(kept.turns.get(&id).map(|turn| turn.record.clone())))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> Answer<'_, Vec<TurnRecord>> {
        self.answer(|kept| {
            let newest_first = kept.turns.values().rev().map(|turn| &turn.record);
            Ok(newest_first
                .filter(|record| session.is_none_or(|session| record.session == session))
                .filter(|record| page.before.is_none_or(|before| record.id.as_uuid() < before))
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn append<'a>(&'a self, lease: &'a Lease, events: Vec<TurnEvent>) -> Answer<'a, Committed> {
        self.answer(|kept| Ok(Committed::at_once(kept.append(lease, events))))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> Answer<'_, Vec<TurnEvent>> {
        self.answer(|kept| {
            let Some(turn) = kept.turns.get(&turn) else {
                return Ok(Vec::new());
            };
            let later = turn.events.range((Bound::Excluded(after), Bound::Unbounded));
            Ok(later.take(limit).map(|(_, event)| event.clone()).collect())
        })
    }

    fn approvals(&self, which: Approvals, page: Page) -> Answer<'_, Vec<ApprovalRecord>> {
        self.answer(|kept| {
            let newest_first = kept.approvals.values().rev();
            Ok(newest_first
                .filter(|record| which == Approvals::All || record.decided.is_none())
                .filter(|record| {
                    page.before.is_none_or(|before| record.approval.id.as_uuid() < before)
                })
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn note_history<'a>(&'a self, note: &'a HistoryNote) -> Answer<'a, Committed> {
        self.answer(|kept| Ok(Committed::at_once(kept.note_history(note))))
    }

    fn with_history(&self, hash: [u8; 32], limit: usize) -> Answer<'_, Vec<HistoryNote>> {
        self.answer(|kept| {
            let mut notes: Vec<_> =
                (kept.histories.iter()).filter(|note| note.hash == hash).cloned().collect();
            notes.sort_by_key(|note| std::cmp::Reverse((note.turn, note.seq)));
            notes.truncate(limit);
            Ok(notes)
        })
    }

    fn spent<'a>(&'a self, caller: &'a str, since: Timestamp) -> Answer<'a, f64> {
        self.answer(|kept| {
            let turns = kept.turns.values().map(|turn| &turn.record);
            let theirs = turns.filter(|turn| {
                turn.options.caller.as_deref() == Some(caller) && turn.created_at >= since
            });
            Ok(theirs.filter_map(|turn| turn.state.outcome()?.usage.cost_usd).sum())
        })
    }

    fn parked_turns(&self, session: Option<SessionId>) -> Answer<'_, Vec<TurnRecord>> {
        self.answer(|kept| {
            let turns = kept.turns.values().map(|turn| &turn.record);
            Ok(turns
                .filter(|turn| session.is_none_or(|session| turn.session == session))
                .filter(|turn| matches!(turn.state, TurnState::Parked { .. }))
                .cloned()
                .collect())
        })
    }

    fn lost_turns(&self) -> Answer<'_, Vec<TurnRecord>> {
        self.answer(|kept| {
            let is_held = |id| kept.sessions.get(id).is_some_and(|session| session.is_held);
            let turns = kept.turns.values();
            Ok(turns
                .filter(|turn| !turn.is_finished() && !is_held(&turn.record.session))
                .filter(|turn| !matches!(turn.record.state, TurnState::Parked { .. }))
                .map(|turn| turn.record.clone())
                .collect())
        })
    }

    fn stale_sessions(&self, before: Timestamp) -> Answer<'_, Vec<SessionRecord>> {
        self.answer(|kept| {
            let is_quiet = |id| {
                let mut turns = kept.turns.values();
                !turns.any(|turn| turn.record.session == id && turn.was_touched_since(before))
            };
            let records = kept.sessions.values().map(|session| &session.record);
            Ok(records
                .filter(|record| record.updated_at < before && is_quiet(record.id))
                .cloned()
                .collect())
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.lock().is_closed = true;
        Box::pin(ready(()))
    }
}
