//! Schedules: turns that start on their own, at set times or when files change.

mod trigger;

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;

pub use self::trigger::{CronTrigger, Trigger, TriggerError};
use super::{ScheduleId, TurnId};

#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRecord {
    pub id: ScheduleId,
    pub trigger: Trigger,
    pub prompt: Arc<str>,
    pub profile: Option<Arc<str>>,
    /// The name or id of the session that every occurrence continues. `None` if each occurrence
    /// gets its own session.
    pub session: Option<Arc<str>>,
    /// The requested directory, which overrides the profile's.
    pub cwd: Option<PathBuf>,
    /// The directory of the person who created the schedule, used if the profile has none.
    pub caller_cwd: Option<PathBuf>,
    /// The channel or endpoint that receives the result.
    pub to: Option<Arc<str>>,
    pub missed: MissedPolicy,
    pub overlap: OverlapPolicy,
    pub paused: bool,
    pub created_at: Timestamp,
    /// When the schedule was created or last resumed. Earlier occurrences do not count.
    pub active_since: Timestamp,
    /// The first unclaimed occurrence. `None` if none is left, or if the schedule watches files.
    pub next_at: Option<Timestamp>,
}

impl ScheduleRecord {
    /// Returns the first occurrence after a time.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.trigger.next_after(self.created_at, after)
    }

    /// Returns the last occurrence at or before a time.
    pub fn last_until(&self, until: Timestamp) -> Option<Timestamp> {
        self.trigger.last_until(self.created_at, until)
    }
}

/// What happens to occurrences that came due while no daemon was running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedPolicy {
    Skip,
    /// A single turn runs for all of them.
    #[default]
    RunOnce,
}

impl MissedPolicy {
    pub const ALL: [Self; 2] = [Self::Skip, Self::RunOnce];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::RunOnce => "run_once",
        }
    }
}

/// What happens to an occurrence that comes due while the turn of an earlier one still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    #[default]
    Skip,
    /// A single turn runs afterwards, however many occurrences came due in the meantime.
    Queue,
}

impl OverlapPolicy {
    pub const ALL: [Self; 2] = [Self::Skip, Self::Queue];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Queue => "queue",
        }
    }
}

/// One time at which a schedule was due, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Identifies the occurrence: a schedule has at most one per time.
    pub due_at: Timestamp,
    pub claimed_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The first of the missed times that this occurrence stands for.
    pub missed_since: Option<Timestamp>,
    /// Number of occurrences skipped while this one's turn ran.
    pub skipped: u32,
    pub turn: Option<TurnId>,
    pub status: OccurrenceStatus,
    /// Why the turn did not run, or why its result did not arrive.
    pub note: Option<Arc<str>>,
}

impl Occurrence {
    /// Returns an occurrence that has just been claimed.
    pub const fn new(due_at: Timestamp, claimed_at: Timestamp) -> Self {
        Self {
            due_at,
            claimed_at,
            ended_at: None,
            missed_since: None,
            skipped: 0,
            turn: None,
            status: OccurrenceStatus::Starting,
            note: None,
        }
    }

    pub const fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OccurrenceStatus {
    /// Claimed, but its turn is not recorded yet.
    Starting,
    Running,
    Missed,
    /// The status of its turn; also `failed` if the turn could not start.
    Ended(Arc<str>),
}

impl OccurrenceStatus {
    pub fn failed() -> Self {
        Self::Ended("failed".into())
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Missed => "missed",
            Self::Ended(status) => status,
        }
    }

    pub fn parse(word: &str) -> Self {
        match word {
            "starting" => Self::Starting,
            "running" => Self::Running,
            "missed" => Self::Missed,
            status => Self::Ended(status.into()),
        }
    }
}

/// A schedule with its newest occurrence.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSummary {
    pub record: ScheduleRecord,
    pub last: Option<Occurrence>,
}
