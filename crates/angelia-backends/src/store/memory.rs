//! The store without a disk: one process, nothing kept. The same rules as on disk, which the
//! conformance suite checks.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::ready,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use angelia_core::{
    model::{
        EventKind, ExternalName, Seq, SessionId, SessionRecord, TurnEvent, TurnId, TurnRecord,
        TurnState,
    },
    ports::{BoxFuture, Committed, Lease, Page, Store, StoreError},
};
use jiff::Timestamp;

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

const NO_SESSION: StoreError = StoreError::NotFound("session");
const NO_TURN: StoreError = StoreError::NotFound("turn");

/// Sessions, turns and events of this process, gone with it.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: BTreeMap<SessionId, KeptSession>,
    turns: BTreeMap<TurnId, KeptTurn>,
    names: HashMap<ExternalName, SessionId>,
    is_closed: bool,
}

#[derive(Debug)]
struct KeptSession {
    record: SessionRecord,
    /// The only process there is owns it.
    is_held: bool,
    epoch: u64,
}

#[derive(Debug)]
struct KeptTurn {
    record: TurnRecord,
    events: BTreeMap<Seq, TurnEvent>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

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

impl Kept {
    fn session(&mut self, id: SessionId) -> Result<&mut KeptSession, StoreError> {
        self.sessions.get_mut(&id).ok_or(NO_SESSION)
    }

    fn check_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let session = self.session(lease.session)?;
        if session.is_held && session.epoch == lease.epoch {
            Ok(())
        } else {
            Err(StoreError::LeaseLost)
        }
    }

    fn open_turn(&mut self, lease: &Lease, id: TurnId) -> Result<&mut KeptTurn, StoreError> {
        let lease_check = self.check_lease(lease);
        let turn = self.turns.get_mut(&id).ok_or(NO_TURN)?;
        if turn.record.session != lease.session {
            return Err(NO_TURN);
        }
        lease_check?;
        if turn.is_finished() {
            return Err(StoreError::TurnFinished);
        }
        Ok(turn)
    }

    /// All or nothing, like a transaction: checked first, then done.
    fn append(&mut self, lease: &Lease, events: Vec<TurnEvent>) -> Result<(), StoreError> {
        let mut finished = HashSet::new();
        let mut recorded = HashSet::new();
        for event in &events {
            let turn = self.open_turn(lease, event.turn)?;
            if finished.contains(&event.turn) {
                return Err(StoreError::TurnFinished);
            }
            if event.kind.is_stored()
                && (turn.events.contains_key(&event.seq)
                    || !recorded.insert((event.turn, event.seq)))
            {
                return Err(StoreError::Recorded { seq: event.seq });
            }
            if matches!(event.kind, EventKind::Finished(_)) {
                finished.insert(event.turn);
            }
        }
        for event in events {
            let Some(turn) = self.turns.get_mut(&event.turn) else {
                continue;
            };
            if let EventKind::Finished(outcome) = &event.kind {
                turn.record.state = TurnState::Finished {
                    at: event.at,
                    outcome: outcome.clone(),
                };
            }
            if event.kind.is_stored() {
                turn.events.insert(event.seq, event);
            }
        }
        Ok(())
    }
}

impl KeptTurn {
    const fn is_finished(&self) -> bool {
        self.record.state.outcome().is_some()
    }

    fn was_touched_since(&self, time: Timestamp) -> bool {
        self.record.created_at >= time
            || match self.record.state {
                TurnState::Finished { at, .. } => at >= time,
                _ => true,
            }
    }
}

impl Store for MemoryStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> Answer<'a, ()> {
        self.answer(|kept| {
            if kept.sessions.contains_key(&session.id) {
                return Err(StoreError::Conflict);
            }
            let new = KeptSession {
                record: session.clone(),
                is_held: false,
                epoch: 0,
            };
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
                .filter(|record| {
                    page.before
                        .is_none_or(|before| record.id.as_uuid() < before)
                })
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn delete_session(&self, id: SessionId) -> Answer<'_, ()> {
        self.answer(|kept| {
            kept.sessions.remove(&id).ok_or(NO_SESSION)?;
            kept.turns.retain(|_, turn| turn.record.session != id);
            kept.names.retain(|_, session| *session != id);
            Ok(())
        })
    }

    fn bind_name<'a>(&'a self, name: &'a ExternalName, session: SessionId) -> Answer<'a, ()> {
        self.answer(|kept| {
            kept.session(session)?;
            kept.names.insert(name.clone(), session);
            Ok(())
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
            Ok(Lease {
                session,
                epoch: current.epoch,
            })
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

    fn create_turn<'a>(&'a self, lease: &'a Lease, turn: &'a TurnRecord) -> Answer<'a, ()> {
        self.answer(|kept| {
            kept.check_lease(lease)?;
            if turn.session != lease.session {
                return Err(StoreError::LeaseLost);
            }
            if kept.turns.contains_key(&turn.id) {
                return Err(StoreError::Conflict);
            }
            refuse_finished(&turn.state)?;
            let new = KeptTurn {
                record: turn.clone(),
                events: BTreeMap::new(),
            };
            kept.turns.insert(turn.id, new);
            Ok(())
        })
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
                .filter(|record| {
                    page.before
                        .is_none_or(|before| record.id.as_uuid() < before)
                })
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn append<'a>(&'a self, lease: &'a Lease, events: Vec<TurnEvent>) -> Answer<'a, Committed> {
        self.answer(|kept| {
            let (reply, committed) = Committed::new();
            let _nobody_waits = reply.send(kept.append(lease, events));
            Ok(committed)
        })
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> Answer<'_, Vec<TurnEvent>> {
        self.answer(|kept| {
            let Some(turn) = kept.turns.get(&turn) else {
                return Ok(Vec::new());
            };
            let later = turn
                .events
                .range((Bound::Excluded(after), Bound::Unbounded));
            Ok(later.take(limit).map(|(_, event)| event.clone()).collect())
        })
    }

    fn lost_turns(&self) -> Answer<'_, Vec<TurnRecord>> {
        self.answer(|kept| {
            let is_held = |id| kept.sessions.get(id).is_some_and(|session| session.is_held);
            let turns = kept.turns.values();
            Ok(turns
                .filter(|turn| !turn.is_finished() && !is_held(&turn.record.session))
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

fn refuse_finished(state: &TurnState) -> Result<(), StoreError> {
    match state.outcome() {
        None => Ok(()),
        Some(_) => Err(StoreError::Failed {
            message: "a turn is finished by its event, not by its state".to_owned(),
        }),
    }
}
