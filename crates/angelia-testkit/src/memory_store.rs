//! An in-memory store for one process. It follows the same rules as the store on disk; the
//! conformance suite checks both.

mod browsers;
mod reports;
mod schedules;
mod state;

use std::{
    future::ready,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
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
        StoreError, StoreFuture, TurnFilter,
    },
};
use jiff::Timestamp;

use self::state::{MemoryStoreState, SESSION_NOT_FOUND, SessionEntry, reject_finished_state};

/// Sessions, turns and events in memory, which are lost when the process exits.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<MemoryStoreState>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Immediately runs `work` on the data, unless the store is closed.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MemoryStoreState) -> Result<T, StoreError>,
    ) -> StoreFuture<'_, T> {
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

    fn lock(&self) -> MutexGuard<'_, MemoryStoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn create_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, ()> {
        self.run(|kept| {
            if kept.sessions.contains_key(&session.id) {
                return Err(StoreError::Conflict);
            }
            let new = SessionEntry { record: session.clone(), is_held: false, epoch: 0 };
            kept.sessions.insert(session.id, new);
            Ok(())
        })
    }

    fn put_session<'a>(&'a self, session: &'a SessionRecord) -> StoreFuture<'a, u64> {
        self.run(|kept| {
            let current = kept.session_mut(session.id)?;
            if current.record.revision != session.revision {
                return Err(StoreError::Conflict);
            }
            let updated_at = current.record.updated_at.max(session.updated_at);
            current.record = SessionRecord { updated_at, ..session.clone() };
            current.record.revision += 1;
            Ok(current.record.revision)
        })
    }

    fn session(&self, id: SessionId) -> StoreFuture<'_, Option<SessionRecord>> {
        self.run(|kept| Ok(kept.sessions.get(&id).map(|session| kept.session_record(session))))
    }

    fn sessions(&self, page: Page) -> StoreFuture<'_, Vec<SessionRecord>> {
        self.run(|kept| {
            let newest_first = kept.sessions.values().rev().filter(|one| !one.is_hidden());
            Ok(newest_first
                .filter(|one| page.before.is_none_or(|before| one.record.id.as_uuid() < before))
                .take(page.limit)
                .map(|session| kept.session_record(session))
                .collect())
        })
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionSummary>> {
        self.run(|kept| Ok(kept.list_sessions(&query)))
    }

    fn find_ids(
        &self,
        kind: RecordKind,
        prefix: IdPrefix,
        limit: usize,
    ) -> StoreFuture<'_, Vec<uuid::Uuid>> {
        self.run(|kept| {
            let ids = kept.ids_of(kind);
            let (first, last) = prefix.range();
            Ok(ids.into_iter().filter(|id| (first..=last).contains(id)).take(limit).collect())
        })
    }

    fn neighbours(
        &self,
        kind: RecordKind,
        ids: Vec<uuid::Uuid>,
    ) -> StoreFuture<'_, Vec<[Option<uuid::Uuid>; 2]>> {
        self.run(|kept| {
            let all = kept.ids_of(kind);
            let beside = |id: &uuid::Uuid| {
                let before = all.iter().rev().find(|other| *other < id);
                [before.copied(), all.iter().find(|other| *other > id).copied()]
            };
            Ok(ids.iter().map(beside).collect())
        })
    }

    fn delete_session(&self, id: SessionId) -> StoreFuture<'_, ()> {
        self.run(|kept| {
            kept.sessions.remove(&id).ok_or(SESSION_NOT_FOUND)?;
            kept.remove_session_data(id);
            Ok(())
        })
    }

    fn bind_name<'a>(
        &'a self,
        name: &'a ExternalName,
        session: SessionId,
    ) -> StoreFuture<'a, SessionId> {
        self.run(|kept| {
            kept.session_mut(session)?;
            Ok(*kept.names.entry(name.clone()).or_insert(session))
        })
    }

    fn find_by_name<'a>(&'a self, name: &'a ExternalName) -> StoreFuture<'a, Option<SessionId>> {
        self.run(|kept| Ok(kept.names.get(name).copied()))
    }

    fn acquire_lease(&self, session: SessionId) -> StoreFuture<'_, Lease> {
        self.run(|kept| {
            let current = kept.session_mut(session)?;
            current.is_held = true;
            current.epoch += 1;
            Ok(Lease { session, epoch: current.epoch })
        })
    }

    fn release_lease(&self, lease: Lease) -> StoreFuture<'_, ()> {
        self.run(|kept| {
            if kept.check_lease(&lease).is_ok() {
                kept.session_mut(lease.session)?.is_held = false;
            }
            Ok(())
        })
    }

    fn create_turn<'a>(
        &'a self,
        lease: &'a Lease,
        new: &'a NewTurn,
    ) -> StoreFuture<'a, ClaimOutcome> {
        self.run(|kept| kept.create_turn(lease, new))
    }

    fn check_claim<'a>(&'a self, claim: &'a RequestClaim) -> StoreFuture<'a, ClaimOutcome> {
        self.run(|kept| Ok(kept.find_claim(claim).unwrap_or(ClaimOutcome::New)))
    }

    fn set_turn_state<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        state: &'a TurnState,
    ) -> StoreFuture<'a, ()> {
        self.run(|kept| {
            let turn = kept.unfinished_turn_mut(lease, turn)?;
            reject_finished_state(state)?;
            turn.record.state = state.clone();
            Ok(())
        })
    }

    fn turn(&self, id: TurnId) -> StoreFuture<'_, Option<TurnRecord>> {
        self.run(|kept| Ok(kept.turns.get(&id).map(|turn| turn.record.clone())))
    }

    fn turns(&self, session: Option<SessionId>, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.run(|kept| {
            let before = page.before.map_or(u64::MAX, |turn| kept.number_of(turn));
            let newest_first = kept.turns_in_order().into_iter().rev();
            Ok(newest_first
                .filter(|turn| turn.number < before)
                .map(|turn| &turn.record)
                .filter(|record| match session {
                    Some(session) => record.session == session,
                    None => {
                        !kept.sessions.get(&record.session).is_some_and(SessionEntry::is_hidden)
                    }
                })
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn find_turns(&self, filter: TurnFilter, page: Page) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.run(|kept| {
            let before = page.before.map_or(u64::MAX, |turn| kept.number_of(turn));
            let newest_first = kept.turns_in_order().into_iter().rev();
            Ok(newest_first
                .filter(|turn| turn.number < before && filter.admits(&turn.record))
                .take(page.limit)
                .map(|turn| turn.record.clone())
                .collect())
        })
    }

    fn append_after<'a>(
        &'a self,
        lease: &'a Lease,
        earlier: Vec<Seq>,
        events: Vec<TurnEvent>,
    ) -> StoreFuture<'a, PendingCommit> {
        self.run(|kept| Ok(PendingCommit::ready(kept.append(lease, &earlier, events))))
    }

    fn replay(&self, turn: TurnId, after: Seq, limit: usize) -> StoreFuture<'_, Vec<TurnEvent>> {
        self.run(|kept| {
            let Some(turn) = kept.turns.get(&turn) else {
                return Ok(Vec::new());
            };
            let later = turn.events.range((Bound::Excluded(after), Bound::Unbounded));
            Ok(later.take(limit).map(|(_, event)| event.clone()).collect())
        })
    }

    fn save_open_text<'a>(
        &'a self,
        lease: &'a Lease,
        turn: TurnId,
        pieces: Vec<OpenText>,
    ) -> StoreFuture<'a, PendingCommit> {
        self.run(|kept| {
            let saved = kept.unfinished_turn_mut(lease, turn).map(|turn| {
                turn.open_text.extend(pieces);
                turn.open_text.sort_by_key(|piece| (piece.block, piece.seq));
            });
            Ok(PendingCommit::ready(saved))
        })
    }

    fn open_text(&self, turn: TurnId) -> StoreFuture<'_, Vec<OpenText>> {
        self.run(|kept| {
            Ok(kept.turns.get(&turn).map(|turn| turn.open_text.clone()).unwrap_or_default())
        })
    }

    fn approvals(&self, which: ApprovalFilter, page: Page) -> StoreFuture<'_, Vec<ApprovalRecord>> {
        self.run(|kept| {
            let newest_first = kept.approvals.values().rev();
            Ok(newest_first
                .filter(|record| which == ApprovalFilter::All || record.resolution.is_none())
                .filter(|record| {
                    page.before.is_none_or(|before| record.approval.id.as_uuid() < before)
                })
                .take(page.limit)
                .cloned()
                .collect())
        })
    }

    fn add_rule<'a>(&'a self, rule: &'a StoredRule) -> StoreFuture<'a, ()> {
        self.run(|kept| {
            let is_same = |kept: &StoredRule| {
                (&kept.profile, &kept.cwd, &kept.rule) == (&rule.profile, &rule.cwd, &rule.rule)
            };
            if !kept.rules.iter().any(is_same) {
                kept.rules.push(rule.clone());
            }
            Ok(())
        })
    }

    fn rules(&self) -> StoreFuture<'_, Vec<StoredRule>> {
        self.run(|kept| Ok(kept.rules.clone()))
    }

    fn remove_rule(&self, id: uuid::Uuid) -> StoreFuture<'_, bool> {
        self.run(|kept| {
            let before = kept.rules.len();
            kept.rules.retain(|rule| rule.id != id);
            Ok(kept.rules.len() < before)
        })
    }

    fn index_history<'a>(&'a self, note: &'a HistoryEntry) -> StoreFuture<'a, PendingCommit> {
        self.run(|kept| Ok(PendingCommit::ready(kept.note_history(note))))
    }

    fn find_by_history(&self, hash: [u8; 32], limit: usize) -> StoreFuture<'_, Vec<HistoryEntry>> {
        self.run(|kept| {
            let mut notes: Vec<_> =
                (kept.histories.iter()).filter(|note| note.hash == hash).cloned().collect();
            let number = |turn: &TurnId| kept.turns.get(turn).map(|turn| turn.number);
            notes.sort_by_key(|note| std::cmp::Reverse((number(&note.turn), note.seq)));
            notes.truncate(limit);
            Ok(notes)
        })
    }

    fn cost_since<'a>(&'a self, caller: &'a str, since: Timestamp) -> StoreFuture<'a, f64> {
        self.run(|kept| {
            let turns = kept.turns.values().map(|turn| &turn.record);
            let theirs = turns.filter(|turn| {
                let names = [&turn.options.caller, &turn.options.charged_to];
                let is_theirs = names.iter().any(|name| name.as_deref() == Some(caller));
                is_theirs && turn.created_at >= since
            });
            Ok(theirs.filter_map(|turn| turn.state.outcome()?.usage.cost_usd).sum())
        })
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageTotals>> {
        self.run(|kept| Ok(kept.usage_totals(query)))
    }

    fn cold_starts(&self, query: UsageQuery, limit: usize) -> StoreFuture<'_, Vec<ColdStart>> {
        self.run(|kept| Ok(kept.cold_starts(query, limit)))
    }

    fn save_quota(&self, quota: Quota) -> StoreFuture<'_, PendingCommit> {
        self.run(|kept| {
            let key = (quota.executor.to_string(), quota.report.window.to_string());
            kept.quotas.insert(key, quota);
            Ok(PendingCommit::ready(Ok(())))
        })
    }

    fn quotas(&self) -> StoreFuture<'_, Vec<Quota>> {
        self.run(|kept| Ok(kept.quotas.values().cloned().collect()))
    }

    fn search(&self, query: SearchQuery) -> StoreFuture<'_, Vec<SearchMatch>> {
        self.run(|kept| Ok(kept.search(&query)))
    }

    fn maintain_search(&self) -> StoreFuture<'_, SearchUpkeep> {
        self.run(|_| Ok(SearchUpkeep::Complete))
    }

    fn resumable_turns(&self, session: Option<SessionId>) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.run(|kept| {
            let turns = kept.turns_in_order().into_iter().map(|turn| &turn.record);
            Ok(turns
                .filter(|turn| session.is_none_or(|session| turn.session == session))
                .filter(|turn| is_resumable(&turn.state))
                .cloned()
                .collect())
        })
    }

    fn lost_turns(&self) -> StoreFuture<'_, Vec<TurnRecord>> {
        self.run(|kept| {
            let is_held = |id| kept.sessions.get(id).is_some_and(|session| session.is_held);
            let turns = kept.turns_in_order().into_iter();
            Ok(turns
                .filter(|turn| !turn.is_finished() && !is_held(&turn.record.session))
                .filter(|turn| !is_resumable(&turn.record.state))
                .map(|turn| turn.record.clone())
                .collect())
        })
    }

    fn stale_sessions(&self, before: Timestamp) -> StoreFuture<'_, Vec<SessionRecord>> {
        self.run(|kept| {
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

    fn record_audit(&self, entry: AuditEntry) -> StoreFuture<'_, ()> {
        self.run(|kept| {
            let number = kept.audit.len() as u64 + 1;
            kept.audit.push(AuditRecord { number, entry });
            Ok(())
        })
    }

    fn audit(&self, query: AuditQuery) -> StoreFuture<'_, Vec<AuditRecord>> {
        self.run(|kept| {
            let rows = kept.audit.iter().rev();
            let rows = rows.filter(|row| query.before.is_none_or(|before| row.number < before));
            let rows = rows.filter(|row| query.since.is_none_or(|since| row.entry.at >= since));
            Ok(rows.take(query.limit).cloned().collect())
        })
    }

    fn check_writable(&self) -> StoreFuture<'_, ()> {
        self.run(|_| Ok(()))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.lock().is_closed = true;
        Box::pin(ready(()))
    }
}

fn is_resumable(state: &TurnState) -> bool {
    matches!(state, TurnState::Parked { .. } | TurnState::HandedOver)
}
