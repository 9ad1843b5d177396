//! What is remembered of requests that have just been made: so that a repeat finds its turn, and
//! results of tools the turn that waits for them. In memory; what was asked before a restart is in
//! the store.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Seq, TurnId},
    ports::HistoryNote,
};
use jiff::Timestamp;
use tokio::time::Instant;

use super::{ShownFrom, canonical::Hash};

/// How long a repeat counts as one.
const REPEATS: Duration = Duration::from_mins(2);

/// When there are more, the old ones are looked for.
const MANY: usize = 1024;

/// Longer than anything waits for results.
const LONG: Duration = Duration::from_hours(48);

pub struct Recent {
    /// Since when everything is remembered here.
    since: Timestamp,
    inner: Mutex<Inner>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { since: Timestamp::now(), inner: Mutex::default() }
    }
}

#[derive(Default)]
struct Inner {
    requests: HashMap<Hash, Request>,
    /// Turns that wait for results: after which event, and since when.
    waiting: HashMap<TurnId, (Seq, Instant)>,
    viewers: HashMap<TurnId, Viewers>,
    /// Turns whose session somebody is about to continue.
    claimed: HashSet<TurnId>,
}

/// Who watches a turn.
#[derive(Clone, Copy)]
struct Viewers {
    /// Right now.
    count: usize,
    /// Somebody wants it finished, watched or not.
    finish: bool,
    since: Instant,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) turn: TurnId,
    pub(super) from: ShownFrom,
    pub(super) stream: bool,
    /// What was asked.
    pub(super) fingerprint: Hash,
    at: Instant,
}

impl Recent {
    /// Remembers a request under each of these keys.
    pub(super) fn note(
        &self,
        keys: impl IntoIterator<Item = Hash>,
        fingerprint: Hash,
        turn: TurnId,
        from: ShownFrom,
        stream: bool,
    ) {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.requests.len() >= MANY {
            inner.requests.retain(|_, request| now - request.at < REPEATS);
        }
        let request = Request { turn, from, stream, fingerprint, at: now };
        inner.requests.extend(keys.into_iter().map(|key| (key, request)));
    }

    /// The newest request under this key, if it was made a moment ago.
    pub(super) fn like(&self, key: &Hash) -> Option<Request> {
        let inner = self.lock();
        let request = inner.requests.get(key)?;
        (request.at.elapsed() < REPEATS).then_some(*request)
    }

    /// A request of which the store says that it was made a moment before the restart.
    pub(super) fn before_restart(&self, note: &HistoryNote, fingerprint: Hash) -> Option<Request> {
        let age = Duration::try_from(Timestamp::now().duration_since(note.at)).ok()?;
        let counts = note.at < self.since && age < REPEATS;
        counts.then(|| Request {
            turn: note.turn,
            from: match note.seq {
                0 => ShownFrom::Part(0),
                seq => ShownFrom::After(seq),
            },
            stream: true,
            fingerprint,
            at: Instant::now(),
        })
    }

    pub(super) fn waits(&self, turn: TurnId, after: Seq) {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.waiting.len() >= MANY {
            // The turns of those have long been ended by their clock.
            inner.waiting.retain(|_, (_, since)| now - *since < LONG);
        }
        inner.waiting.insert(turn, (after, now));
    }

    /// Does the turn wait since this event?
    pub(super) fn is_waiting(&self, turn: TurnId, after: Seq) -> bool {
        let inner = self.lock();
        inner.waiting.get(&turn).is_some_and(|(seq, _)| *seq == after)
    }

    /// The results have come: of any number who bring them, one may give them.
    pub(super) fn take_waiting(&self, turn: TurnId) -> Option<Seq> {
        self.lock().waiting.remove(&turn).map(|(seq, _)| seq)
    }

    /// Of any number who want to continue after this turn, one may.
    pub(super) fn claim(&self, turn: TurnId) -> bool {
        self.lock().claimed.insert(turn)
    }

    pub(super) fn release(&self, turn: TurnId) {
        self.lock().claimed.remove(&turn);
    }

    /// Somebody watches; with `finish`, the turn is wanted even if they leave.
    pub(super) fn enters(&self, turn: TurnId, finish: bool) {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.viewers.len() >= MANY {
            let alive = |viewers: &Viewers| viewers.count > 0 || now - viewers.since < LONG;
            inner.viewers.retain(|_, viewers| alive(viewers));
        }
        let viewers =
            inner.viewers.entry(turn).or_insert(Viewers { count: 0, finish: false, since: now });
        viewers.count += 1;
        viewers.finish |= finish;
    }

    /// `true`: nobody else is there, and nobody has asked for it to be finished.
    pub(super) fn leaves(&self, turn: TurnId, saw_the_end: bool) -> bool {
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

    pub(super) fn is_watched(&self, turn: TurnId) -> bool {
        self.lock().viewers.contains_key(&turn)
    }

    /// The request was answered, and may be made again.
    pub(super) fn forget(&self, turn: TurnId) {
        self.lock().requests.retain(|_, request| request.turn != turn);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is one step, so it is whole even if somebody panicked.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").finish_non_exhaustive()
    }
}
