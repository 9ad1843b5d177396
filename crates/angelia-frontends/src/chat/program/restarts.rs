//! Decides when an ended program may be restarted: immediately, then after growing pauses. Pure.

use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(5);

/// A program that ran for this long counts as recovered.
const STABLE_AFTER: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// How many times in a row the program ended soon after its start.
    failures: u32,
    not_before: Option<Instant>,
}

impl Restarts {
    /// Records that the program ended on its own, or could not be started.
    pub(super) fn note_end(&mut self, started: Instant, now: Instant) {
        let was_stable = now.duration_since(started) > STABLE_AFTER;
        self.failures = if was_stable { 1 } else { self.failures + 1 };
        let growing = self.failures.checked_sub(2).map_or(Duration::ZERO, |more| {
            FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(more)).min(MAX_PAUSE)
        });
        self.not_before = Some(now + growing);
    }

    /// Returns how long to wait before the next start.
    pub(super) fn pause_left(&self, now: Instant) -> Option<Duration> {
        self.not_before?.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_restart_is_at_once_and_pauses_grow() {
        let mut restarts = Restarts::default();
        let now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            restarts.note_end(now, now);
            pauses.push(restarts.pause_left(now).unwrap_or_default().as_secs());
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        restarts.note_end(now, now + STABLE_AFTER * 2);
        assert_eq!(restarts.pause_left(now + STABLE_AFTER * 2), None);
    }
}
