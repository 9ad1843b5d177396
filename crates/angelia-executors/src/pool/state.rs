//! The bookkeeping of a warm pool: for each launch shape, how many processes exist and how many
//! should. Pure: time is an argument, and the caller starts the processes.

use std::{collections::VecDeque, time::Duration};

use angelia_core::model::LaunchFingerprint;
use tokio::{sync::oneshot, time::Instant};

/// The fingerprint component that changes when the program is updated.
pub(crate) const VERSION_COMPONENT: &str = "program version";

/// The most processes of one shape, regardless of demand.
const MAX_PER_SHAPE: usize = 8;

/// The most processes of all shapes together, ready or starting.
const MAX_TOTAL: usize = 16;

/// How long to wait before replacing a process that was taken. Starting a process is expensive and
/// should not compete with the turn that the taken process now runs.
const REFILL_DELAY: Duration = Duration::from_millis(400);

/// Misses closer together than this count as one burst.
const BURST_WINDOW: Duration = Duration::from_secs(1);

/// After this long without a miss, the target drops by one process.
const DECAY_INTERVAL: Duration = Duration::from_mins(5);

/// An idle process older than this is replaced, because it has read outdated settings, an outdated
/// repository state and an outdated date.
const MAX_IDLE_AGE: Duration = Duration::from_mins(30);

/// An undeclared shape that has not been used for this long is dropped.
const UNUSED_SHAPE_TTL: Duration = Duration::from_hours(1);

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_mins(5);

/// A process that dies sooner than this after it became ready counts as a failed start.
const MIN_HEALTHY_AGE: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct PoolState<T, S> {
    shapes: Vec<ShapeState<T, S>>,
}

#[derive(Debug)]
struct ShapeState<T, S> {
    key: LaunchFingerprint,
    start: S,
    /// Declared shapes are kept even if they are not used.
    declared: bool,
    baseline: usize,
    extra: usize,
    ready: VecDeque<(Instant, T)>,
    starting: usize,
    waiters: VecDeque<oneshot::Sender<T>>,
    last_used: Instant,
    /// The time at which `extra` last changed.
    extra_changed: Instant,
    failures: u32,
    not_before: Instant,
}

#[derive(Debug)]
pub(super) enum PoolTakeResult<T> {
    Hit(T),
    /// A starting process was reserved; it arrives through the receiver.
    Wait(oneshot::Receiver<T>),
    /// No process is available: the caller must start one. Carries the fingerprint component in
    /// which a ready process of another shape differs, if there is such a process.
    Miss(Option<&'static str>),
}

#[derive(Debug)]
pub(super) enum PoolAction<T, S> {
    /// Start a process of this shape, after closing the evicted process (if any) to make room.
    Start(LaunchFingerprint, S, Option<T>),
    WaitUntil(Instant),
    Idle,
}

impl<T, S: Clone> PoolState<T, S> {
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
        self.shape_mut(key, baseline, start, now).declared = true;
    }

    /// Takes a live process. Moves dead processes that it finds to `dead`.
    pub(super) fn take(
        &mut self,
        key: &LaunchFingerprint,
        baseline: usize,
        start: S,
        now: Instant,
        mut is_alive: impl FnMut(&mut T) -> bool,
        dead: &mut Vec<T>,
    ) -> PoolTakeResult<T> {
        let nearest = self.nearest_difference(key);
        let shape = self.shape_mut(key, baseline, start, now);
        shape.last_used = now;
        while let Some((since, mut one)) = shape.ready.pop_front() {
            if is_alive(&mut one) {
                shape.not_before = shape.not_before.max(now + REFILL_DELAY);
                return PoolTakeResult::Hit(one);
            }
            shape.record_death(since, now);
            dead.push(one);
        }
        shape.waiters.retain(|waiting| !waiting.is_closed());
        // Each waiter reserves one starting process; wait only if one is left unreserved.
        if shape.starting > shape.waiters.len() {
            let (sender, receiver) = oneshot::channel();
            shape.waiters.push_back(sender);
            return PoolTakeResult::Wait(receiver);
        }
        shape.record_miss(now);
        PoolTakeResult::Miss(nearest)
    }

    /// Returns the process to start now, or the time of the next check.
    pub(super) fn next_action(&mut self, now: Instant) -> PoolAction<T, S> {
        let total = self.total();
        let mut lacking: Vec<usize> =
            (0..self.shapes.len()).filter(|&at| self.shapes[at].needs_start(now)).collect();
        // The most recently used shape comes first.
        lacking.sort_by_key(|&at| std::cmp::Reverse(self.shapes[at].last_used));
        let Some(&at) = lacking.iter().find(|&&at| self.shapes[at].not_before <= now) else {
            let soonest = lacking.iter().map(|&at| self.shapes[at].not_before).min();
            return soonest.map_or(PoolAction::Idle, PoolAction::WaitUntil);
        };
        let evicted = if total < MAX_TOTAL {
            None
        } else {
            match self.evict_for(at) {
                None => return PoolAction::Idle,
                evicted => evicted,
            }
        };
        let shape = &mut self.shapes[at];
        shape.starting += 1;
        PoolAction::Start(shape.key.clone(), shape.start.clone(), evicted)
    }

    /// Records a successful start. Returns the process if it is no longer needed.
    pub(super) fn record_start(
        &mut self,
        key: &LaunchFingerprint,
        one: T,
        now: Instant,
    ) -> Option<T> {
        let Some(shape) = self.find(key) else {
            return Some(one);
        };
        shape.starting = shape.starting.saturating_sub(1);
        let mut one = one;
        while let Some(waiting) = shape.waiters.pop_front() {
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

    /// Records a failed start. Drops the last waiter, whose caller then starts a process itself.
    pub(super) fn record_failure(&mut self, key: &LaunchFingerprint, now: Instant) {
        if let Some(shape) = self.find(key) {
            shape.starting = shape.starting.saturating_sub(1);
            shape.back_off(now);
            while shape.waiters.len() > shape.starting {
                shape.waiters.pop_back();
            }
        }
    }

    /// Removes and returns the processes that are dead, too old, or above their shape's target.
    pub(super) fn prune(
        &mut self,
        now: Instant,
        mut is_alive: impl FnMut(&mut T) -> bool,
    ) -> Vec<T> {
        let mut gone = Vec::new();
        for shape in &mut self.shapes {
            if shape.extra > 0 && now >= shape.extra_changed + DECAY_INTERVAL {
                shape.extra -= 1;
                shape.extra_changed = now;
            }
            let mut kept = VecDeque::new();
            for (since, mut one) in std::mem::take(&mut shape.ready) {
                if !is_alive(&mut one) {
                    shape.record_death(since, now);
                    gone.push(one);
                } else if kept.len() < shape.target(now) && now < since + MAX_IDLE_AGE {
                    kept.push_back((since, one));
                } else {
                    gone.push(one);
                }
            }
            shape.ready = kept;
            // A process has survived long enough that earlier failures no longer count.
            if (shape.ready.front()).is_some_and(|(since, _)| now >= *since + MIN_HEALTHY_AGE) {
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

    pub(super) fn ready_count(&self, key: &LaunchFingerprint) -> usize {
        let shape = self.shapes.iter().find(|shape| shape.key == *key);
        shape.map_or(0, |shape| shape.ready.len())
    }

    fn total(&self) -> usize {
        (self.shapes.iter()).map(|shape| shape.ready.len() + shape.starting).sum()
    }

    fn find(&mut self, key: &LaunchFingerprint) -> Option<&mut ShapeState<T, S>> {
        self.shapes.iter_mut().find(|shape| shape.key == *key)
    }

    fn shape_mut(
        &mut self,
        key: &LaunchFingerprint,
        baseline: usize,
        start: S,
        now: Instant,
    ) -> &mut ShapeState<T, S> {
        let known = self.shapes.iter().position(|shape| shape.key == *key);
        let at = known.unwrap_or_else(|| {
            let declared = self.supersede(key);
            self.shapes.push(ShapeState {
                key: key.clone(),
                start: start.clone(),
                declared,
                baseline,
                extra: 0,
                ready: VecDeque::new(),
                starting: 0,
                waiters: VecDeque::new(),
                last_used: now,
                extra_changed: now,
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

    /// Retires the shape that differs from `key` only in the program version, because the program
    /// was updated. Returns whether the old shape was declared, which the new one inherits.
    fn supersede(&mut self, key: &LaunchFingerprint) -> bool {
        let older =
            |shape: &&mut ShapeState<T, S>| shape.key.difference(key) == Some(VERSION_COMPONENT);
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

    /// Evicts a ready process of the least recently used shape, if that shape was used less
    /// recently than the one that lacks a process.
    fn evict_for(&mut self, lacking: usize) -> Option<T> {
        let used = self.shapes[lacking].last_used;
        let oldest = (self.shapes.iter_mut())
            .filter(|shape| !shape.ready.is_empty() && shape.last_used < used)
            .min_by_key(|shape| shape.last_used)?;
        oldest.ready.pop_back().map(|(_, one)| one)
    }
}

impl<T, S> ShapeState<T, S> {
    fn target(&self, now: Instant) -> usize {
        if !self.declared && now >= self.last_used + UNUSED_SHAPE_TTL {
            return 0;
        }
        match self.baseline {
            0 => 0,
            baseline => (baseline + self.extra).min(MAX_PER_SHAPE.max(baseline)),
        }
    }

    fn needs_start(&self, now: Instant) -> bool {
        self.ready.len() + self.starting < self.target(now)
    }

    fn record_miss(&mut self, now: Instant) {
        let grown_before = self.extra > 0 && now < self.extra_changed + BURST_WINDOW;
        if !grown_before && self.baseline + self.extra < MAX_PER_SHAPE {
            self.extra += 1;
            self.extra_changed = now;
        }
        // The caller starts a process for this miss; the pool's own start must not compete with it.
        self.not_before = self.not_before.max(now + REFILL_DELAY);
    }

    fn record_death(&mut self, since: Instant, now: Instant) {
        if now < since + MIN_HEALTHY_AGE {
            self.back_off(now);
        }
    }

    fn back_off(&mut self, now: Instant) {
        let pause = FIRST_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + pause;
    }
}
