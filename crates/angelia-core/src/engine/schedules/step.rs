//! Decides what to do with a schedule now, from the stored schedule and the time. Pure and without
//! state of its own, so that a restart loses nothing.

use jiff::{SignedDuration, Timestamp};

use crate::model::{MissedPolicy, Occurrence, OverlapPolicy, ScheduleRecord};

/// An occurrence that is later than this has been missed.
const MAX_LATENESS: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleStep {
    /// Nothing is due before this time. `None`: the schedule never comes due by time.
    Wait(Option<Timestamp>),
    /// An occurrence is due, and waits for the end of the one that runs.
    Hold,
    /// The occurrence is left out, because that of `running` has not ended.
    Skip {
        running: Timestamp,
        next_at: Option<Timestamp>,
    },
    /// The occurrence is recorded as missed.
    Miss(DueOccurrence),
    Run(DueOccurrence),
}

/// The newest occurrence that is due. It stands for all earlier ones that were not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueOccurrence {
    pub due_at: Timestamp,
    /// The first time that has been missed, if there is one.
    pub missed_since: Option<Timestamp>,
    /// The next occurrence, later than this one.
    pub next_at: Option<Timestamp>,
}

/// Returns what to do with a schedule. `last` is its newest occurrence.
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

/// Returns the first occurrence of a schedule that is resumed now.
pub fn next_after_resume(
    schedule: &ScheduleRecord,
    last: Option<&Occurrence>,
    now: Timestamp,
) -> Option<Timestamp> {
    // The clock may have been set back since the last one.
    let after = last.map_or(now, |last| last.due_at.max(now));
    schedule.next_after(after)
}
