//! The bookkeeping of a warm pool: how many processes of which shape there are and should be.
//! Pure: it is told the time and starts nothing itself.

use std::{collections::VecDeque, time::Duration};

use angelia_core::model::LaunchFingerprint;
use tokio::{sync::oneshot, time::Instant};

/// The component of a fingerprint that an update of the program changes.
pub(crate) const VERSION: &str = "program version";

/// Processes of one shape, however large the demand.
const MOST_OF_A_SHAPE: usize = 8;

/// Processes of all shapes, ready or starting.
const MOST_OF_ALL: usize = 16;

/// After one has been taken its replacement waits: starting is heavy, and the turn that the taken
/// one now runs should not compete with it.
const PAUSE_AFTER_HIT: Duration = Duration::from_millis(400);

/// Misses closer together than this are one burst.
const BURST: Duration = Duration::from_secs(1);

/// Without a miss for this long, one process less is kept.
const DECAY: Duration = Duration::from_mins(5);

/// One that has waited longer knows an old state of the world: settings, a repository, the date.
const OLDEST: Duration = Duration::from_mins(30);

/// A shape nobody declared is given up after this.
const FORGET: Duration = Duration::from_hours(1);

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_mins(5);

/// One that dies sooner than this after it was ready counts as a failed start.
const EARLY_DEATH: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct Stock<T, S> {
    shapes: Vec<Shape<T, S>>,
}

#[derive(Debug)]
struct Shape<T, S> {
    key: LaunchFingerprint,
    start: S,
    /// Kept also when nobody uses it.
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
    /// One is on its way.
    Wait(oneshot::Receiver<T>),
    /// Start one now. With the name of what no waiting process had in common, if any waits.
    Miss(Option<&'static str>),
}

#[derive(Debug)]
pub(super) enum Next<T, S> {
    /// Start one of this shape; end the other first, to make room.
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

    /// Takes a process that is alive; the dead ones on the way go to `dead`.
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
        if shape.starting > shape.waiting.len() {
            let (sender, receiver) = oneshot::channel();
            shape.waiting.push_back(sender);
            return Taken::Wait(receiver);
        }
        shape.missed(now);
        Taken::Miss(nearest)
    }

    /// What should be started now, if anything.
    pub(super) fn next(&mut self, now: Instant) -> Next<T, S> {
        let total = self.total();
        let mut lacking: Vec<usize> =
            (0..self.shapes.len()).filter(|&at| self.shapes[at].lacks(now)).collect();
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

    /// A start has ended well. `Some`: nobody wants it any more.
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

    /// A start has failed; one of those who wait for it must start one itself.
    pub(super) fn failed(&mut self, key: &LaunchFingerprint, now: Instant) {
        if let Some(shape) = self.find(key) {
            shape.starting = shape.starting.saturating_sub(1);
            shape.back_off(now);
            while shape.waiting.len() > shape.starting {
                shape.waiting.pop_back();
            }
        }
    }

    /// What has died, what is too much, and what nobody has asked for in a long time.
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
            // It lived long enough: what went wrong before is over.
            if (shape.ready.front()).is_some_and(|(since, _)| now >= *since + EARLY_DEATH) {
                shape.failures = 0;
            }
        }
        (self.shapes).retain(|shape| shape.target(now) > 0 || shape.starting > 0);
        gone
    }

    /// Everything that waits, for the end.
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

    /// Gives up a shape whose program has been updated since; `true`: it was declared.
    fn supersede(&mut self, key: &LaunchFingerprint) -> bool {
        let older = |shape: &&mut Shape<T, S>| shape.key.difference(key) == Some(VERSION);
        self.shapes.iter_mut().find(older).is_some_and(|shape| {
            shape.baseline = 0;
            std::mem::take(&mut shape.declared)
        })
    }

    /// In which respect the process that comes closest does not fit.
    fn nearest_difference(&self, key: &LaunchFingerprint) -> Option<&'static str> {
        (self.shapes.iter())
            .filter(|shape| !shape.ready.is_empty())
            .find_map(|shape| shape.key.difference(key))
    }

    /// One that waits of the shape used longest ago, if longer ago than the one that lacks.
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
        // The one that is started for the miss itself comes first.
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
