//! The data of the memory store, and the rules that keep it consistent.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    model::{
        ApprovalId, ApprovalRecord, AuditRecord, BrowserRecord, EventKind, ExternalName,
        LatestTurn, Quota, ScheduleId, Seq, SessionId, SessionRecord, SessionSummary, StoredRule,
        TurnEvent, TurnId, TurnRecord, TurnState, Usage, first_words,
    },
    ports::{
        ClaimOutcome, HistoryEntry, Lease, NewTurn, OpenText, RecordKind, RequestClaim,
        SessionOrder, SessionQuery, StoreError,
    },
};
use jiff::Timestamp;
use uuid::Uuid;

use super::{reports::UsageEntry, schedules::ScheduleEntry};

pub(super) const SESSION_NOT_FOUND: StoreError = StoreError::NotFound("session");
const TURN_NOT_FOUND: StoreError = StoreError::NotFound("turn");

#[derive(Debug, Default)]
pub(super) struct MemoryStoreState {
    pub(super) sessions: BTreeMap<SessionId, SessionEntry>,
    pub(super) turns: BTreeMap<TurnId, TurnEntry>,
    pub(super) usage: BTreeMap<TurnId, UsageEntry>,
    pub(super) quotas: BTreeMap<(String, String), Quota>,
    pub(super) names: HashMap<ExternalName, SessionId>,
    /// By caller and key.
    claims: HashMap<(Arc<str>, Arc<str>), ClaimEntry>,
    pub(super) approvals: BTreeMap<ApprovalId, ApprovalRecord>,
    pub(super) rules: Vec<StoredRule>,
    pub(super) histories: Vec<HistoryEntry>,
    pub(super) audit: Vec<AuditRecord>,
    pub(super) schedules: BTreeMap<ScheduleId, ScheduleEntry>,
    pub(super) browsers: Vec<BrowserRecord>,
    /// The number of the newest turn.
    last_number: u64,
    pub(super) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct SessionEntry {
    pub(super) record: SessionRecord,
    /// Whether this process, the only one that uses this store, owns the session.
    pub(super) is_held: bool,
    pub(super) epoch: u64,
}

impl SessionEntry {
    pub(super) fn is_hidden(&self) -> bool {
        self.record.is_hidden()
    }
}

#[derive(Debug)]
pub(super) struct TurnEntry {
    /// Orders the turns by creation.
    pub(super) number: u64,
    pub(super) record: TurnRecord,
    pub(super) open_text: Vec<OpenText>,
    pub(super) events: BTreeMap<Seq, TurnEvent>,
}

#[derive(Debug)]
struct ClaimEntry {
    input: [u8; 32],
    turn: TurnId,
    made_at: Timestamp,
    /// The end of the window with which the claim was made, because windows differ.
    forget_at: Timestamp,
}

/// Sorts sessions, most recently used first.
fn sort_by_use(sessions: &mut [SessionSummary]) {
    let place = |summary: &SessionSummary| (summary.record.updated_at, summary.record.id);
    sessions.sort_by_key(|summary| std::cmp::Reverse(place(summary)));
}

impl MemoryStoreState {
    pub(super) fn session_mut(&mut self, id: SessionId) -> Result<&mut SessionEntry, StoreError> {
        self.sessions.get_mut(&id).ok_or(SESSION_NOT_FOUND)
    }

    /// Returns the session record in the form that readers get.
    pub(super) fn session_record(&self, session: &SessionEntry) -> SessionRecord {
        let mut record = session.record.clone();
        let turns = self.turns.values().filter(|turn| turn.record.session == record.id);
        let newest = turns.max_by_key(|turn| turn.number);
        if let Some(TurnEntry { record: turn, .. }) = newest {
            record.updated_at = record.updated_at.max(turn.created_at);
            if let TurnState::Finished { at, .. } = turn.state {
                record.updated_at = record.updated_at.max(at);
            }
        }
        record
    }

    pub(super) fn list_sessions(&self, query: &SessionQuery) -> Vec<SessionSummary> {
        let (filter, order, page) = match query {
            // Only summarise this session, because a test may have thousands of them.
            SessionQuery::One(id) => {
                let one = self.sessions.get(id);
                return one.map(|session| self.session_summary(session)).into_iter().collect();
            }
            SessionQuery::Find { filter, order, page } => (filter, order, page),
        };
        let listed = self.sessions.values().rev().filter(|session| !session.is_hidden());
        let all = listed.map(|session| self.session_summary(session));
        let mut all: Vec<_> = all.filter(|one| filter.admits(one)).collect();
        if *order == SessionOrder::Used {
            sort_by_use(&mut all);
        }
        if let Some(before) = page.before {
            let place = all.iter().position(|one| one.record.id.as_uuid() == before);
            all.drain(..=place.unwrap_or_default());
        }
        all.truncate(page.limit);
        all
    }

    pub(super) fn session_summary(&self, session: &SessionEntry) -> SessionSummary {
        let record = self.session_record(session);
        let id = record.id;
        let turns: Vec<_> = self.turns_in_order().into_iter().map(|turn| &turn.record).collect();
        let own = || turns.iter().filter(|turn| turn.session == id);
        let is_name = |name: &&ExternalName| {
            &*name.scope == ExternalName::OWNER_SCOPE && self.names[name] == id
        };
        let name = self.names.keys().find(is_name);
        SessionSummary {
            name: name.map(|name| Arc::clone(&name.name)),
            first_words: own().find_map(|turn| first_words(&turn.input)).map(Into::into),
            newest_turn: own().next_back().map(|turn| LatestTurn {
                id: turn.id,
                status: turn.state.as_str().into(),
                created_at: turn.created_at,
            }),
            turns: own().count() as u64,
            cost_usd: own()
                .filter_map(|turn| turn.state.outcome()?.usage.cost_usd)
                .reduce(|sum, cost| sum + cost),
            record,
        }
    }

    /// Returns all ids of a kind, in order.
    pub(super) fn ids_of(&self, kind: RecordKind) -> Vec<Uuid> {
        match kind {
            RecordKind::Session => self.sessions.keys().map(|id| id.as_uuid()).collect(),
            RecordKind::Turn => self.turns.keys().map(|id| id.as_uuid()).collect(),
            RecordKind::Approval => self.approvals.keys().map(|id| id.as_uuid()).collect(),
            RecordKind::Schedule => self.schedules.keys().map(|id| id.as_uuid()).collect(),
        }
    }

    /// Returns all turns, oldest first.
    pub(super) fn turns_in_order(&self) -> Vec<&TurnEntry> {
        let mut turns: Vec<_> = self.turns.values().collect();
        turns.sort_by_key(|turn| turn.number);
        turns
    }

    /// Returns the number of a turn or, if it no longer exists, the position that its age would
    /// give it.
    pub(super) fn number_of(&self, turn: Uuid) -> u64 {
        let turn = TurnId::from_uuid(turn);
        let neighbour = || self.turns.range(..turn).next_back().map(|(_, turn)| turn.number + 1);
        self.turns.get(&turn).map(|turn| turn.number).or_else(neighbour).unwrap_or_default()
    }

    pub(super) fn check_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let session = self.session_mut(lease.session)?;
        if session.is_held && session.epoch == lease.epoch {
            Ok(())
        } else {
            Err(StoreError::LeaseLost)
        }
    }

    pub(super) fn unfinished_turn_mut(
        &mut self,
        lease: &Lease,
        id: TurnId,
    ) -> Result<&mut TurnEntry, StoreError> {
        // Compute this first but return it later: like the SQLite store, report a missing turn
        // before a lost lease.
        let lease_check = self.check_lease(lease);
        let turn = self.turns.get_mut(&id).ok_or(TURN_NOT_FOUND)?;
        if turn.record.session != lease.session {
            return Err(TURN_NOT_FOUND);
        }
        lease_check?;
        if turn.is_finished() {
            return Err(StoreError::TurnFinished);
        }
        Ok(turn)
    }

    /// Removes the turns, names, approvals, histories and claims of a session.
    pub(super) fn remove_session_data(&mut self, id: SessionId) {
        self.turns.retain(|_, turn| turn.record.session != id);
        for entry in self.usage.values_mut() {
            entry.session = entry.session.filter(|session| *session != id);
        }
        self.names.retain(|_, session| *session != id);
        self.approvals.retain(|_, approval| approval.session != id);
        self.histories.retain(|note| note.session != id);
        let turns = &self.turns;
        self.claims.retain(|_, claim| turns.contains_key(&claim.turn));
    }

    pub(super) fn note_history(&mut self, note: &HistoryEntry) -> Result<(), StoreError> {
        let turn = self.turns.get(&note.turn).ok_or(TURN_NOT_FOUND)?;
        if turn.record.session != note.session {
            return Err(TURN_NOT_FOUND);
        }
        let is_same = |known: &HistoryEntry| {
            (known.hash, known.turn, known.seq) == (note.hash, note.turn, note.seq)
        };
        if !self.histories.iter().any(is_same) {
            self.histories.push(note.clone());
        }
        Ok(())
    }

    pub(super) fn create_turn(
        &mut self,
        lease: &Lease,
        new: &NewTurn,
    ) -> Result<ClaimOutcome, StoreError> {
        let turn = &new.record;
        self.check_lease(lease)?;
        if turn.session != lease.session {
            return Err(StoreError::LeaseLost);
        }
        if let Some(claim) = &new.claim
            && let Some(known) = self.find_claim(claim)
        {
            return Ok(known);
        }
        if self.turns.contains_key(&turn.id) {
            return Err(StoreError::Conflict);
        }
        reject_finished_state(&turn.state)?;
        self.last_number += 1;
        let entry = TurnEntry {
            number: self.last_number,
            record: turn.clone(),
            open_text: Vec::new(),
            events: BTreeMap::new(),
        };
        self.turns.insert(turn.id, entry);
        if let Some(claim) = &new.claim {
            self.insert_claim(claim, turn);
        }
        if let Some(entry) = new.history_entry() {
            self.note_history(&entry)?;
        }
        Ok(ClaimOutcome::New)
    }

    pub(super) fn find_claim(&self, claim: &RequestClaim) -> Option<ClaimOutcome> {
        let key = (Arc::clone(&claim.caller), Arc::clone(&claim.key));
        let known = self.claims.get(&key).filter(|known| known.made_at >= claim.since)?;
        Some(if known.input == claim.input {
            ClaimOutcome::Repeats(known.turn)
        } else {
            ClaimOutcome::Conflicts(known.turn)
        })
    }

    fn insert_claim(&mut self, claim: &RequestClaim, turn: &TurnRecord) {
        let now = turn.created_at;
        let window = now.duration_since(claim.since);
        self.claims.retain(|_, claim| claim.forget_at >= now);
        let new = ClaimEntry {
            input: claim.input,
            turn: turn.id,
            made_at: now,
            forget_at: now.checked_add(window).unwrap_or(Timestamp::MAX),
        };
        self.claims.insert((Arc::clone(&claim.caller), Arc::clone(&claim.key)), new);
    }

    /// Appends all events or none, like a transaction: checks all of them before writing the first.
    pub(super) fn append(
        &mut self,
        lease: &Lease,
        earlier: &[Seq],
        events: Vec<TurnEvent>,
    ) -> Result<(), StoreError> {
        let mut finished = HashSet::new();
        let mut recorded = HashSet::new();
        for event in &events {
            let turn = self.unfinished_turn_mut(lease, event.turn)?;
            if let Some(&seq) = earlier.iter().find(|seq| !turn.events.contains_key(seq)) {
                return Err(StoreError::MissingEvent { seq });
            }
            if finished.contains(&event.turn) {
                return Err(StoreError::TurnFinished);
            }
            if event.kind.is_stored()
                && (turn.events.contains_key(&event.seq)
                    || !recorded.insert((event.turn, event.seq)))
            {
                return Err(StoreError::DuplicateEvent { seq: event.seq });
            }
            if matches!(event.kind, EventKind::Finished(_)) {
                finished.insert(event.turn);
            }
        }
        for event in events {
            let Some(turn) = self.turns.get_mut(&event.turn) else {
                continue;
            };
            match &event.kind {
                EventKind::Started(started) => {
                    self.usage.entry(event.turn).or_insert_with(|| UsageEntry {
                        session: Some(turn.record.session),
                        at: turn.record.created_at,
                        started: started.clone(),
                        account: turn.record.options.account().cloned(),
                        usage: Usage::default(),
                    });
                }
                EventKind::Usage(usage) => {
                    if let Some(entry) = self.usage.get_mut(&event.turn) {
                        entry.usage = usage.clone();
                    }
                }
                EventKind::Finished(outcome) => {
                    if let Some(entry) = self.usage.get_mut(&event.turn) {
                        entry.usage = outcome.usage.clone();
                    }
                    turn.record.state =
                        TurnState::Finished { at: event.at, outcome: outcome.clone() };
                    turn.open_text.clear();
                }
                EventKind::Approval(approval) => {
                    // An approval that is requested again is still one approval.
                    self.approvals.entry(approval.id).or_insert_with(|| ApprovalRecord {
                        approval: approval.clone(),
                        session: turn.record.session,
                        turn: event.turn,
                        requested_at: event.at,
                        resolution: None,
                    });
                }
                EventKind::Resolved(resolution) => {
                    // The first decision wins.
                    if let Some(asked) = self.approvals.get_mut(&resolution.id)
                        && asked.turn == event.turn
                        && asked.resolution.is_none()
                    {
                        asked.resolution = Some((resolution.clone(), event.at));
                    }
                }
                _ => {}
            }
            if event.kind.is_stored() {
                turn.events.insert(event.seq, event);
            }
        }
        Ok(())
    }
}

impl TurnEntry {
    pub(super) const fn is_finished(&self) -> bool {
        self.record.state.outcome().is_some()
    }

    pub(super) fn was_touched_since(&self, time: Timestamp) -> bool {
        self.record.created_at >= time
            || match self.record.state {
                TurnState::Finished { at, .. } => at >= time,
                _ => true,
            }
    }
}

pub(super) fn reject_finished_state(state: &TurnState) -> Result<(), StoreError> {
    match state.outcome() {
        None => Ok(()),
        Some(_) => Err(StoreError::Failed {
            message: "a turn is finished by its event, not by its state".to_owned(),
        }),
    }
}
