//! How much the bus keeps, and for how long.

use std::time::Duration;

/// The largest envelope, as on the wire.
pub const MAX_MESSAGE: usize = 10 * 1024 * 1024;

/// What waits for all names together. A sender who invents names meets this, not a full disk.
pub(super) const MAX_QUEUED_IN_ALL: usize = 1_000_000;

/// Of what waits, this many bytes are kept in memory as well; the rest is read when it is wanted.
pub(super) const MAX_CACHED: usize = 32 * 1024 * 1024;

/// The oldest dead letters are forgotten beyond this.
pub(super) const MAX_DEAD: usize = 10_000;

/// What one call of `Inbox::next` takes at most, unless a single message is larger.
pub(super) const MAX_TAKEN_BYTES: usize = 1024 * 1024;

/// As set under `bus:` in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct BusLimits {
    /// Then a message that nobody has received becomes a dead letter.
    pub message_ttl: Duration,
    /// Per endpoint; more is refused, so that what was accepted is never dropped to make room.
    pub max_queued: usize,
    /// A message with the same id, sender and receiver as one accepted this recently is that one.
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
