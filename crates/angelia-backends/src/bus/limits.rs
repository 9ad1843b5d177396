//! Limits on the number and the age of the messages that the bus keeps.

use std::time::Duration;

/// The largest envelope, in the bytes of its wire form.
pub const MAX_MESSAGE_BYTES: usize = 10 * 1024 * 1024;

/// Unacknowledged messages of all endpoints together. A sender that invents endpoint names runs
/// into this limit and not into a full disk.
pub(super) const MAX_TOTAL_QUEUED: usize = 1_000_000;

/// Bytes of queued messages that are also kept in memory; the other messages are read from disk
/// when they are delivered.
pub(super) const MAX_CACHED_BYTES: usize = 32 * 1024 * 1024;

/// Beyond this number the oldest dead letters are removed.
pub(super) const MAX_DEAD_LETTERS: usize = 10_000;

/// The most that one call of `Inbox::next` returns, unless a single message is larger.
pub(super) const MAX_TAKE_BYTES: usize = 1024 * 1024;

/// The limits that are set under `bus:` in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct BusLimits {
    /// After this time a message that was not received becomes a dead letter.
    pub message_ttl: Duration,
    /// Per endpoint. Further messages are refused, so that an accepted message is never dropped to
    /// make room.
    pub max_queued: usize,
    /// A message with the same id, sender and receiver as one accepted this recently is a repeat of
    /// it.
    pub dedupe_window: Duration,
}

impl Default for BusLimits {
    fn default() -> Self {
        Self {
            message_ttl: Duration::from_hours(7 * 24),
            max_queued: 10_000,
            dedupe_window: Duration::from_mins(2),
        }
    }
}

impl BusLimits {
    pub(super) fn ttl_ms(&self) -> i64 {
        i64::try_from(self.message_ttl.as_millis()).unwrap_or(i64::MAX)
    }
}
