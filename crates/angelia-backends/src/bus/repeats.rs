//! Recognises a message that was accepted before within the dedupe window.
//!
//! Only a keyed 128-bit hash of each message is kept, in two generations: the older one is dropped
//! when the newer one has grown old or large. A flood beyond [`MAX_GENERATION_MESSAGES`] shortens
//! the window instead of using up all memory.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState},
};

use angelia_core::model::bus::Message;

use super::limits::BusLimits;

const GENERATION: usize = 250_000;

#[derive(Debug)]
pub(super) struct Repeats {
    window: i64,
    keys: [RandomState; 2],
    young: HashMap<u128, i64>,
    old: HashMap<u128, i64>,
    born: i64,
}

impl Repeats {
    pub(super) fn new(limits: &BusLimits) -> Self {
        Self {
            window: i64::try_from(limits.dedupe_window.as_millis()).unwrap_or(i64::MAX),
            keys: [RandomState::new(), RandomState::new()],
            young: HashMap::new(),
            old: HashMap::new(),
            born: 0,
        }
    }

    /// Returns the hash that identifies a message by its id, sender and receiver.
    pub(super) fn key(&self, message: &Message) -> u128 {
        let half = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            message.id.hash(&mut hasher);
            message.from.hash(&mut hasher);
            message.to.hash(&mut hasher);
            u128::from(hasher.finish())
        };
        half(&self.keys[0]) << 64 | half(&self.keys[1])
    }

    pub(super) fn contains(&self, key: u128, now: i64) -> bool {
        let at = self.young.get(&key).or_else(|| self.old.get(&key));
        at.is_some_and(|at| now.saturating_sub(*at) < self.window)
    }

    pub(super) fn insert(&mut self, key: u128, at: i64) {
        if self.window == 0 {
            return;
        }
        let is_old = at.saturating_sub(self.born) > self.window;
        if self.young.len() >= GENERATION || (is_old && !self.young.is_empty()) {
            self.old = std::mem::take(&mut self.young);
        }
        if self.young.is_empty() {
            self.born = at;
        }
        self.young.insert(key, at);
    }

    /// Drops hashes that have outlived the window, so that an idle bus uses little memory.
    pub(super) fn tick(&mut self, now: i64) {
        if now.saturating_sub(self.born) > self.window.saturating_mul(2) {
            self.young = HashMap::new();
            self.old = HashMap::new();
        }
    }

    /// Removes a message that could not be stored after it was inserted.
    pub(super) fn remove(&mut self, key: u128) {
        self.young.remove(&key);
    }
}
