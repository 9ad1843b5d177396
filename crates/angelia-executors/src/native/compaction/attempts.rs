//! Decides when a conversation may be compacted automatically: not soon after a compaction failed,
//! and no longer once two in a row have not helped. A person can always request one.

use std::time::Duration;

use tokio::time::Instant;

/// The waits after one, two, and three or more failures in a row.
const COOL_DOWNS: [Duration; 3] =
    [Duration::from_mins(1), Duration::from_mins(5), Duration::from_mins(15)];

/// After this many ineffective compactions in a row, no further one is tried.
const MAX_INEFFECTIVE: u32 = 2;

/// The outcomes of a conversation's compactions so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactionAttempts {
    /// Failures in a row.
    failures: usize,
    not_before: Option<Instant>,
    /// Compactions in a row after which the conversation was still too long.
    ineffective: u32,
    /// The provider has not reported yet whether the last compaction helped.
    is_unproven: bool,
}

impl CompactionAttempts {
    pub fn may_begin(&self, now: Instant) -> bool {
        self.ineffective < MAX_INEFFECTIVE && self.not_before.is_none_or(|at| at <= now)
    }

    /// Records a failure, and returns the wait before the next attempt.
    pub fn note_failure(&mut self, now: Instant) -> Duration {
        let wait = COOL_DOWNS[self.failures.min(COOL_DOWNS.len() - 1)];
        self.failures += 1;
        self.not_before = Some(now + wait);
        wait
    }

    /// Forgets earlier failures, because a person has asked for a compaction.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Records a successful compaction, and returns whether no further one will be tried. If the
    /// provider has not reported since the previous compaction, that one did not help.
    pub fn note_done(&mut self) -> bool {
        (self.failures, self.not_before) = (0, None);
        let is_last = self.note_size(true);
        self.is_unproven = true;
        is_last
    }

    /// Records whether the conversation is too long after the last compaction. Returns whether no
    /// further one will be tried.
    pub fn note_size(&mut self, is_too_long: bool) -> bool {
        if !std::mem::take(&mut self.is_unproven) {
            return false;
        }
        self.ineffective = if is_too_long { self.ineffective + 1 } else { 0 };
        self.ineffective == MAX_INEFFECTIVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_waits_grow_and_a_success_ends_them() {
        let mut attempts = CompactionAttempts::default();
        let now = Instant::now();
        for seconds in [60, 300, 900, 900] {
            assert_eq!(attempts.note_failure(now).as_secs(), seconds);
            assert!(!attempts.may_begin(now + Duration::from_secs(seconds - 1)));
            assert!(attempts.may_begin(now + Duration::from_secs(seconds)));
        }
        attempts.note_done();
        assert!(attempts.may_begin(now));
        assert_eq!(attempts.note_failure(now).as_secs(), 60);
        attempts.forget();
        assert!(attempts.may_begin(now));
    }

    #[tokio::test(start_paused = true)]
    async fn two_that_do_not_help_are_enough() {
        let (mut attempts, now) = (CompactionAttempts::default(), Instant::now());
        assert!(!attempts.note_size(true), "there was no compaction");
        for is_last in [false, true] {
            assert!(!attempts.note_done());
            assert_eq!((attempts.note_size(true), attempts.note_size(true)), (is_last, false));
        }
        assert!(!attempts.may_begin(now));
        attempts.forget();
        assert!(!attempts.note_done());
        assert!(!attempts.note_size(true));
        assert!(!attempts.note_done());
        assert!(!attempts.note_size(false));
        assert!(attempts.may_begin(now));
        assert_eq!(
            [attempts.note_done(), attempts.note_done(), attempts.note_done()],
            [false, false, true]
        );
    }
}
