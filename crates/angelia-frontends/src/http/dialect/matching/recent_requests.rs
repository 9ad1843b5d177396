//! Remembers recent requests in memory, so that a repeat finds its turn, and tool results find the
//! turn that waits for them. Requests from before a restart are looked up in the store.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Seq, TurnId},
    ports::HistoryEntry,
};
use jiff::Timestamp;
use tokio::time::Instant;

use super::HashBytes;
use crate::http::dialect::AnswerStart;

/// How long an equal request counts as a repeat.
const REPEAT_WINDOW: Duration = Duration::from_mins(2);

/// Maps with at least this many entries are pruned.
const PRUNE_THRESHOLD: usize = 1024;

/// Entries older than this are stale: no turn waits that long for results.
const STALE_AFTER: Duration = Duration::from_hours(48);

pub struct RecentRequests {
    /// When this memory began. Earlier requests are only in the store.
    since: Timestamp,
    inner: Mutex<RecentState>,
}

impl Default for RecentRequests {
    fn default() -> Self {
        Self { since: Timestamp::now(), inner: Mutex::default() }
    }
}

#[derive(Default)]
struct RecentState {
    requests: HashMap<HashBytes, RecentRequest>,
    /// Turns that wait for tool results: the last event before the wait, and when it began.
    waiting: HashMap<TurnId, (Seq, Instant)>,
    viewers: HashMap<TurnId, Viewers>,
    /// Turns whose session a request is about to continue.
    claimed: HashSet<TurnId>,
}

/// The viewers of a turn.
#[derive(Clone, Copy)]
struct Viewers {
    /// The number of connected viewers.
    count: usize,
    /// Whether a client without streaming wants the turn to finish, even if that client
    /// disconnects.
    finish: bool,
    since: Instant,
}

/// A request and its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecentRequest {
    pub(super) turn: TurnId,
    pub(super) start: AnswerStart,
    pub(super) stream: bool,
    /// The hash of the request's conversation.
    pub(super) fingerprint: HashBytes,
    at: Instant,
}

impl RecentRequest {
    pub(super) fn new(
        turn: TurnId,
        start: AnswerStart,
        stream: bool,
        fingerprint: HashBytes,
    ) -> Self {
        Self { turn, start, stream, fingerprint, at: Instant::now() }
    }
}

impl RecentRequests {
    /// Records a request under each of these keys.
    pub(super) fn insert(&self, keys: impl IntoIterator<Item = HashBytes>, request: RecentRequest) {
        let mut inner = self.lock();
        if inner.requests.len() >= PRUNE_THRESHOLD {
            inner.requests.retain(|_, request| request.at.elapsed() < REPEAT_WINDOW);
        }
        inner.requests.extend(keys.into_iter().map(|key| (key, request)));
    }

    /// Returns the newest request with this key, if it is recent.
    pub(super) fn find(&self, key: &HashBytes) -> Option<RecentRequest> {
        let inner = self.lock();
        let request = inner.requests.get(key)?;
        (request.at.elapsed() < REPEAT_WINDOW).then_some(*request)
    }

    /// Returns the request of a stored entry, if it was made shortly before the last restart.
    pub(super) fn find_stored(
        &self,
        entry: &HistoryEntry,
        fingerprint: HashBytes,
    ) -> Option<RecentRequest> {
        let age = Duration::try_from(Timestamp::now().duration_since(entry.at)).ok()?;
        let counts = entry.at < self.since && age < REPEAT_WINDOW;
        let start = match entry.seq {
            0 => AnswerStart::Part(0),
            seq => AnswerStart::AfterEvent(seq),
        };
        counts.then(|| RecentRequest::new(entry.turn, start, true, fingerprint))
    }

    pub(in crate::http) fn mark_waiting(&self, turn: TurnId, after: Seq) {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.waiting.len() >= PRUNE_THRESHOLD {
            // Their turns timed out long ago.
            inner.waiting.retain(|_, (_, since)| now - *since < STALE_AFTER);
        }
        inner.waiting.insert(turn, (after, now));
    }

    /// Returns the event after which a turn waits for results, if it does. Leaves the mark in
    /// place.
    pub(super) fn waiting_since(&self, turn: TurnId) -> Option<Seq> {
        self.lock().waiting.get(&turn).map(|(seq, _)| *seq)
    }

    /// Removes the mark that a turn waits for results. If several requests contain the results,
    /// only one gets `Some` and may deliver them.
    pub(super) fn take_waiting(&self, turn: TurnId) -> Option<Seq> {
        self.lock().waiting.remove(&turn).map(|(seq, _)| seq)
    }

    /// Claims the right to continue after this turn. Only one request can hold it.
    pub(super) fn claim(&self, turn: TurnId) -> bool {
        self.lock().claimed.insert(turn)
    }

    pub(super) fn release(&self, turn: TurnId) {
        self.lock().claimed.remove(&turn);
    }

    /// Adds a viewer. With `finish`, the turn runs to its end even if every viewer disconnects.
    pub(in crate::http) fn add_viewer(&self, turn: TurnId, finish: bool) {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.viewers.len() >= PRUNE_THRESHOLD {
            let alive = |viewers: &Viewers| viewers.count > 0 || now - viewers.since < STALE_AFTER;
            inner.viewers.retain(|_, viewers| alive(viewers));
        }
        let viewers =
            inner.viewers.entry(turn).or_insert(Viewers { count: 0, finish: false, since: now });
        viewers.count += 1;
        viewers.finish |= finish;
    }

    /// Removes a viewer. Returns `true` if it was the last one, left before the end, and no client
    /// wants the turn to finish.
    pub(in crate::http) fn remove_viewer(&self, turn: TurnId, saw_the_end: bool) -> bool {
        let mut inner = self.lock();
        let Some(viewers) = inner.viewers.get_mut(&turn) else {
            return false;
        };
        viewers.count -= 1;
        let abandoned = viewers.count == 0 && !viewers.finish;
        if viewers.count == 0 && (saw_the_end || abandoned) {
            inner.viewers.remove(&turn);
        }
        abandoned && !saw_the_end
    }

    pub(in crate::http) fn has_viewers(&self, turn: TurnId) -> bool {
        self.lock().viewers.contains_key(&turn)
    }

    /// Forgets the requests of a turn, so that they may be repeated as new ones.
    pub(in crate::http) fn forget(&self, turn: TurnId) {
        self.lock().requests.retain(|_, request| request.turn != turn);
    }

    fn lock(&self) -> MutexGuard<'_, RecentState> {
        // Every change is a single step, so the state is consistent even after a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RecentRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentRequests").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_waiting_turn_may_be_looked_at_and_is_taken_once() {
        let recent = RecentRequests::default();
        let turn = TurnId::from_uuid(Uuid::from_u128(1));
        recent.mark_waiting(turn, 7);
        assert_eq!((recent.waiting_since(turn), recent.waiting_since(turn)), (Some(7), Some(7)));
        assert_eq!((recent.take_waiting(turn), recent.take_waiting(turn)), (Some(7), None));
        assert_eq!(recent.waiting_since(turn), None);
    }
}
