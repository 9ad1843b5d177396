//! Recognises a message that was accepted before within the dedupe window.
//!
//! Only a keyed 128-bit hash of each message and a hash of its body are kept, in two generations:
//! the older one is dropped when the newer one has grown old or large. A flood beyond
//! [`MAX_GENERATION_MESSAGES`] shortens the window instead of using up all memory.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState},
};

use angelia_core::model::bus::BusMessage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::limits::BusLimits;

const MAX_GENERATION_MESSAGES: usize = 250_000;

#[derive(Debug)]
pub(super) struct DedupeFilter {
    window_ms: i64,
    hashers: [RandomState; 2],
    current: HashMap<u128, AcceptedMessage>,
    previous: HashMap<u128, AcceptedMessage>,
    current_since: i64,
}

/// Returns a hash of the body as it is written, by which a repeated message is told from another
/// message with the same id. A sender may write a new `ts` when it sends a message again, so the
/// rest of the envelope does not count.
pub(super) fn hash_body(message: &BusMessage) -> u64 {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        body: Option<&'a RawValue>,
    }
    let mut hasher = DefaultHasher::new();
    match serde_json::from_slice::<Envelope<'_>>(&message.envelope) {
        Ok(Envelope { body }) => body.map(RawValue::get).hash(&mut hasher),
        Err(_unreadable) => message.envelope.hash(&mut hasher),
    }
    hasher.finish()
}

#[derive(Clone, Copy, Debug)]
struct AcceptedMessage {
    /// Unix milliseconds.
    at: i64,
    body_hash: u64,
}

/// The relation of a message to an earlier one with the same id, sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierMessage {
    None,
    Same,
    OtherBody,
}

impl DedupeFilter {
    pub(super) fn new(limits: &BusLimits) -> Self {
        Self {
            window_ms: i64::try_from(limits.dedupe_window.as_millis()).unwrap_or(i64::MAX),
            hashers: [RandomState::new(), RandomState::new()],
            current: HashMap::new(),
            previous: HashMap::new(),
            current_since: 0,
        }
    }

    /// Returns the hash that identifies a message by its id, sender and receiver.
    pub(super) fn hash_message(&self, message: &BusMessage) -> u128 {
        let half = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            message.id.hash(&mut hasher);
            message.from.hash(&mut hasher);
            message.to.hash(&mut hasher);
            u128::from(hasher.finish())
        };
        half(&self.hashers[0]) << 64 | half(&self.hashers[1])
    }

    pub(super) fn find(&self, key: u128, body_hash: u64, now: i64) -> EarlierMessage {
        let earlier = self.current.get(&key).or_else(|| self.previous.get(&key));
        match earlier.filter(|earlier| now.saturating_sub(earlier.at) < self.window_ms) {
            None => EarlierMessage::None,
            Some(earlier) if earlier.body_hash == body_hash => EarlierMessage::Same,
            Some(_) => EarlierMessage::OtherBody,
        }
    }

    pub(super) fn insert(&mut self, key: u128, body_hash: u64, at: i64) {
        if self.window_ms == 0 {
            return;
        }
        let is_old = at.saturating_sub(self.current_since) > self.window_ms;
        if self.current.len() >= MAX_GENERATION_MESSAGES || (is_old && !self.current.is_empty()) {
            self.previous = std::mem::take(&mut self.current);
        }
        if self.current.is_empty() {
            self.current_since = at;
        }
        self.current.insert(key, AcceptedMessage { at, body_hash });
    }

    /// Drops hashes that have outlived the window, so that an idle bus uses little memory.
    pub(super) fn expire(&mut self, now: i64) {
        if now.saturating_sub(self.current_since) > self.window_ms.saturating_mul(2) {
            self.current = HashMap::new();
            self.previous = HashMap::new();
        }
    }

    /// Removes a message that could not be stored after it was inserted.
    pub(super) fn remove(&mut self, key: u128) {
        self.current.remove(&key);
    }
}
