//! The bookkeeping of a warm pool: how many processes of each launch shape exist and should exist.
//! Pure: the time is passed in, and starting processes is the caller's job.

use std::{collections::VecDeque, time::Duration};

use angelia_core::model::LaunchFingerprint;
use tokio::{sync::oneshot, time::Instant};

/// The fingerprint component that an update of the program changes.
pub(crate) const VERSION: &str = "program version";

/// The most processes of one shape, whatever the demand.
const MOST_OF_A_SHAPE: usize = 8;

/// The most processes of all shapes together, ready or starting.
const MOST_OF_ALL: usize = 16;

/// How long to wait before replacing a process that was taken: starting is expensive and should
/// not compete with the turn that the taken process now runs.
const PAUSE_AFTER_HIT: Duration = Duration::from_millis(400);

/// Misses closer together than this count as one burst.
const BURST: Duration = Duration::from_secs(1);

/// After this long without a miss, the target drops by one process.
const DECAY: Duration = Duration::from_mins(5);

/// An idle process older than this is replaced: it has read old settings, an old repository state
/// and an old date.
const OLDEST: Duration = Duration::from_mins(30);

/// An undeclared shape that was not used for this long is dropped.
const FORGET: Duration = Duration::from_hours(1);

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_mins(5);

/// A process that dies sooner than this after it became ready counts as a failed start.
const EARLY_DEATH: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct Stock<T, S> {
    shapes: Vec<Shape<T, S>>,
}

#[derive(Debug)]
struct Shape<T, S> {
    key: LaunchFingerprint,
    start: S,
    /// Declared shapes are kept even when they are not used.
    declared: bool,
    baseline: usize,
    extra: usize,
    ready: VecDeque<(Instant, T)>,
    starting: usize,
    waiting: VecDeque<oneshot::Sender<T>>,
    used: Instant,
    /// When `extra` last changed.
    changed: Instant,
    failures: u32,
    not_before: Instant,
}

#[derive(Debug)]
pub(super) enum Taken<T> {
    Hit(T),
    /// A starting process was reserved; it arrives through the receiver.
    Wait(oneshot::Receiver<T>),
    /// No process is available: the caller must start one. Carries the fingerprint component in
    /// which a ready process of another shape differs, if there is one.
    Miss(Option<&'static str>),
}

#[derive(Debug)]
pub(super) enum Next<T, S> {
    /// Start a process of this shape, after closing the evicted process (if any) to make room.
    Start(LaunchFingerprint, S, Option<T>),
    At(Instant),
    Nothing,
}

impl<T, S: Clone> Stock<T, S> {
    pub(super) const fn new() -> Self {
        Self { shapes: Vec::new() }
    }

    pub(super) fn declare(
        &mut self,
        key: &LaunchFingerprint,
        baseline: usize,
        start: S,
        now: Instant,
    ) {
        self.shape(key, baseline, start, now).declared = true;
    }

    /// Takes a live process. Dead processes found on the way are moved to `dead`.
    pub(super) fn take(
        &mut self,
        key: &LaunchFingerprint,
        baseline: usize,
        start: S,
        now: Instant,
        mut is_alive: impl FnMut(&mut T) -> bool,
        dead: &mut Vec<T>,
    ) -> Taken<T> {
        let nearest = self.nearest_difference(key);
        let shape = self.shape(key, baseline, start, now);
        shape.used = now;
        while let Some((since, mut one)) = shape.ready.pop_front() {
            if is_alive(&mut one) {
                shape.not_before = shape.not_before.max(now + PAUSE_AFTER_HIT);
                return Taken::Hit(one);
            }
            shape.died(since, now);
            dead.push(one);
        }
        shape.waiting.retain(|waiting| !waiting.is_closed());
        // Each waiter reserves one starting process; wait only if one is unreserved.
        if shape.starting > shape.waiting.len() {
            let (sender, receiver) = oneshot::channel();
            shape.waiting.push_back(sender);
            return Taken::Wait(receiver);
        }
        shape.missed(now);
        Taken::Miss(nearest)
    }

    /// Returns the process to start now, or when to check again.
    pub(super) fn next(&mut self, now: Instant) -> Next<T, S> {
        let total = self.total();
        let mut lacking: Vec<usize> =
            (0..self.shapes.len()).filter(|&at| self.shapes[at].lacks(now)).collect();
        // The most recently used shape comes first.
        lacking.sort_by_key(|&at| std::cmp::Reverse(self.shapes[at].used));
        let Some(&at) = lacking.iter().find(|&&at| self.shapes[at].not_before <= now) else {
            let soonest = lacking.iter().map(|&at| self.shapes[at].not_before).min();
            return soonest.map_or(Next::Nothing, Next::At);
        };
        let evicted = if total < MOST_OF_ALL {
            None
        } else {
            match self.evict_for(at) {
                None => return Next::Nothing,
                evicted => evicted,
            }
        };
        let shape = &mut self.shapes[at];
        shape.starting += 1;
        Next::Start(shape.key.clone(), shape.start.clone(), evicted)
    }

    /// Records a successful start. Returns the process if it is no longer needed.
    pub(super) fn started(&mut self, key: &LaunchFingerprint, one: T, now: Instant) -> Option<T> {
        let Some(shape) = self.find(key) else {
            return Some(one);
        };
        shape.starting = shape.starting.saturating_sub(1);
        let mut one = one;
        while let Some(waiting) = shape.waiting.pop_front() {
            match waiting.send(one) {
                Ok(()) => return None,
                Err(given_up) => one = given_up,
            }
        }
        if shape.ready.len() + shape.starting >= shape.target(now) {
            return Some(one);
        }
        shape.ready.push_back((now, one));
        None
    }

    /// Records a failed start. The last waiter is dropped, so that it starts a process itself.
    pub(super) fn failed(&mut self, key: &LaunchFingerprint, now: Instant) {
        if let Some(shape) = self.find(key) {
            shape.starting = shape.starting.saturating_sub(1);
            shape.back_off(now);
            while shape.waiting.len() > shape.starting {
                shape.waiting.pop_back();
            }
        }
    }

    /// Removes and returns processes that are dead, too old or above the target of their shape.
    pub(super) fn tend(
        &mut self,
        now: Instant,
        mut is_alive: impl FnMut(&mut T) -> bool,
    ) -> Vec<T> {
        let mut gone = Vec::new();
        for shape in &mut self.shapes {
            if shape.extra > 0 && now >= shape.changed + DECAY {
                shape.extra -= 1;
                shape.changed = now;
            }
            let mut kept = VecDeque::new();
            for (since, mut one) in std::mem::take(&mut shape.ready) {
                if !is_alive(&mut one) {
                    shape.died(since, now);
                    gone.push(one);
                } else if kept.len() < shape.target(now) && now < since + OLDEST {
                    kept.push_back((since, one));
                } else {
                    gone.push(one);
                }
            }
            shape.ready = kept;
            // A process has survived long enough: earlier failures no longer count.
            if (shape.ready.front()).is_some_and(|(since, _)| now >= *since + EARLY_DEATH) {
                shape.failures = 0;
            }
        }
        (self.shapes).retain(|shape| shape.target(now) > 0 || shape.starting > 0);
        gone
    }

    /// Removes and returns every ready process, for shutdown.
    pub(super) fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut self.shapes)
            .into_iter()
            .flat_map(|shape| shape.ready)
            .map(|(_, one)| one)
            .collect()
    }

    pub(super) fn ready(&self, key: &LaunchFingerprint) -> usize {
        let shape = self.shapes.iter().find(|shape| shape.key == *key);
        shape.map_or(0, |shape| shape.ready.len())
    }

    fn total(&self) -> usize {
        (self.shapes.iter()).map(|shape| shape.ready.len() + shape.starting).sum()
    }

    fn find(&mut self, key: &LaunchFingerprint) -> Option<&mut Shape<T, S>> {
        self.shapes.iter_mut().find(|shape| shape.key == *key)
    }

    fn shape(
        &mut self,
        key: &LaunchFingerprint,
        baseline: usize,
        start: S,
        now: Instant,
    ) -> &mut Shape<T, S> {
        let known = self.shapes.iter().position(|shape| shape.key == *key);
        let at = known.unwrap_or_else(|| {
            let declared = self.supersede(key);
            self.shapes.push(Shape {
                key: key.clone(),
                start: start.clone(),
                declared,
                baseline,
                extra: 0,
                ready: VecDeque::new(),
                starting: 0,
                waiting: VecDeque::new(),
                used: now,
                changed: now,
                failures: 0,
                not_before: now,
            });
            self.shapes.len() - 1
        });
        let shape = &mut self.shapes[at];
        shape.baseline = baseline;
        shape.start = start;
        shape
    }

    /// Drops the shape that differs from `key` only in the program version, because the program was
    /// updated. Returns whether the old shape was declared; the new one inherits that.
    fn supersede(&mut self, key: &LaunchFingerprint) -> bool {
        let older = |shape: &&mut Shape<T, S>| shape.key.difference(key) == Some(VERSION);
        self.shapes.iter_mut().find(older).is_some_and(|shape| {
            shape.baseline = 0;
            std::mem::take(&mut shape.declared)
        })
    }

    /// Returns the fingerprint component in which a ready process of another shape differs.
    fn nearest_difference(&self, key: &LaunchFingerprint) -> Option<&'static str> {
        (self.shapes.iter())
            .filter(|shape| !shape.ready.is_empty())
            .find_map(|shape| shape.key.difference(key))
    }

    /// Evicts a ready process of the least recently used shape, if that shape was used before the
    /// one that lacks a process.
    fn evict_for(&mut self, lacking: usize) -> Option<T> {
        let used = self.shapes[lacking].used;
        let oldest = (self.shapes.iter_mut())
            .filter(|shape| !shape.ready.is_empty() && shape.used < used)
            .min_by_key(|shape| shape.used)?;
        oldest.ready.pop_back().map(|(_, one)| one)
    }
}

impl<T, S> Shape<T, S> {
    fn target(&self, now: Instant) -> usize {
        if !self.declared && now >= self.used + FORGET {
            return 0;
        }
        match self.baseline {
            0 => 0,
            baseline => (baseline + self.extra).min(MOST_OF_A_SHAPE.max(baseline)),
        }
    }

    fn lacks(&self, now: Instant) -> bool {
        self.ready.len() + self.starting < self.target(now)
    }

    fn missed(&mut self, now: Instant) {
        let grown_before = self.extra > 0 && now < self.changed + BURST;
        if !grown_before && self.baseline + self.extra < MOST_OF_A_SHAPE {
            self.extra += 1;
            self.changed = now;
        }
        // The caller starts a process for this miss; the pool's own start waits for that.
        self.not_before = self.not_before.max(now + PAUSE_AFTER_HIT);
    }

    fn died(&mut self, since: Instant, now: Instant) {
        if now < since + EARLY_DEATH {
            self.back_off(now);
        }
    }

    fn back_off(&mut self, now: Instant) {
        let pause = FIRST_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(LONGEST_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + pause;
    }
}
