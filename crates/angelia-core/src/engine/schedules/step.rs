//! Decides what to do with a schedule now, given the stored schedule and the time. Pure and
//! stateless, so a restart loses nothing.

use jiff::{SignedDuration, Timestamp};

use crate::model::{MissedPolicy, Occurrence, OverlapPolicy, ScheduleRecord};

/// An occurrence later than this counts as missed.
const MAX_LATENESS: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleStep {
    /// Nothing is due before this time. `None` if the schedule never comes due by time.
    Wait(Option<Timestamp>),
    /// An occurrence is due, but waits until the running one ends.
    Hold,
    /// The occurrence is skipped, because the one that was due at `running` has not ended.
    Skip {
        running: Timestamp,
        next_at: Option<Timestamp>,
    },
    /// The occurrence is recorded as missed.
    Miss(DueOccurrence),
    Run(DueOccurrence),
}

/// The newest occurrence that is due. It stands for all earlier unclaimed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueOccurrence {
    pub due_at: Timestamp,
    /// The first time that was missed, if any.
    pub missed_since: Option<Timestamp>,
    /// The next occurrence, later than this one.
    pub next_at: Option<Timestamp>,
}

/// Decides what to do with a schedule. `last` is its newest occurrence.
pub fn next_step(
    schedule: &ScheduleRecord,
    last: Option<&Occurrence>,
    now: Timestamp,
) -> ScheduleStep {
    let first = match schedule.next_at {
        Some(first) if first <= now && !schedule.paused => first,
        later => return ScheduleStep::Wait(later.filter(|_| !schedule.paused)),
    };
    let due_at = schedule.last_until(now).filter(|last| *last > first).unwrap_or(first);
    let next_at = schedule.next_after(due_at);
    if let Some(running) = last.filter(|last| last.is_open()) {
        return match schedule.overlap {
            OverlapPolicy::Skip => ScheduleStep::Skip { running: running.due_at, next_at },
            OverlapPolicy::Queue => ScheduleStep::Hold,
        };
    }
    let was_held = last.and_then(|last| last.ended_at).is_some_and(|ended| ended >= due_at);
    let is_late = now.duration_since(due_at) > MAX_LATENESS && !was_held;
    let missed_since = (is_late || first < due_at).then_some(first);
    let due = DueOccurrence { due_at, missed_since, next_at };
    if is_late && schedule.missed == MissedPolicy::Skip {
        ScheduleStep::Miss(due)
    } else {
        ScheduleStep::Run(due)
    }
}

/// Returns the first occurrence after a schedule is resumed now.
pub fn next_after_resume(
    schedule: &ScheduleRecord,
    last: Option<&Occurrence>,
    now: Timestamp,
) -> Option<Timestamp> {
    // The clock may have been set back since the last occurrence.
    let after = last.map_or(now, |last| last.due_at.max(now));
    schedule.next_after(after)
}
