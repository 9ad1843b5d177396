//! Schedules: turns that begin by themselves, at set times or when files change.

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
    /// The session that every occurrence continues: its name, or its id. `None`: each occurrence
    /// has a session of its own.
    pub session: Option<Arc<str>>,
    /// The directory that was asked for; wins over the profile's.
    pub cwd: Option<PathBuf>,
    /// The directory of the person who created the schedule, for a profile without a directory.
    pub caller_cwd: Option<PathBuf>,
    /// The channel or the endpoint that gets the result.
    pub to: Option<Arc<str>>,
    pub missed: MissedPolicy,
    pub overlap: OverlapPolicy,
    pub paused: bool,
    pub created_at: Timestamp,
    /// The time at which it was created or last resumed. Earlier occurrences do not count.
    pub active_since: Timestamp,
    /// The first occurrence that is not claimed. `None`: none is left, or the schedule watches
    /// files.
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

/// The treatment of occurrences that came due while no daemon ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedPolicy {
    Skip,
    /// One turn runs for all of them.
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

/// The treatment of an occurrence that comes due while the turn of an earlier one still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    #[default]
    Skip,
    /// One turn runs afterwards, however many occurrences come in the meantime.
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
    /// Identifies the occurrence: a schedule has one for each time.
    pub due_at: Timestamp,
    pub claimed_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The first of the missed times that this one stands for.
    pub missed_since: Option<Timestamp>,
    /// The number of occurrences that were skipped while its turn ran.
    pub skipped: u32,
    pub turn: Option<TurnId>,
    pub status: OccurrenceStatus,
    /// The reason why the turn did not run, or why its result did not arrive.
    pub note: Option<Arc<str>>,
}

impl Occurrence {
    /// An occurrence that has just been claimed.
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
    /// Claimed; its turn is not recorded yet.
    Starting,
    Running,
    Missed,
    /// The status of its turn; `failed` also if the turn could not start.
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
