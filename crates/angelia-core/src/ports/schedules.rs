//! The part of the store that keeps schedules and their occurrences.

use jiff::Timestamp;

use super::StoreFuture;
use crate::model::{Occurrence, ScheduleId, ScheduleRecord, ScheduleSummary};

pub trait ScheduleStore: Send + Sync + 'static {
    fn add_schedule<'a>(&'a self, schedule: &'a ScheduleRecord) -> StoreFuture<'a, ()>;

    /// Lists all schedules, oldest first.
    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleSummary>>;

    fn schedule(&self, id: ScheduleId) -> StoreFuture<'_, Option<ScheduleSummary>>;

    /// Returns whether the schedule exists.
    fn change_schedule(&self, id: ScheduleId, change: ScheduleChange) -> StoreFuture<'_, bool>;

    /// Removes a schedule with its occurrences. Returns whether it existed.
    fn remove_schedule(&self, id: ScheduleId) -> StoreFuture<'_, bool>;

    /// Moves a schedule to its next occurrence, in one transaction with the new or skipped
    /// occurrence. Returns `false` and changes nothing if the schedule is gone, is paused, or is no
    /// longer at `from`, or if the occurrence exists.
    fn advance_schedule(&self, advance: ScheduleAdvance) -> StoreFuture<'_, bool>;

    /// Replaces the occurrence of the same time, except for the number of those that were skipped. Does
    /// nothing if it is gone.
    fn put_occurrence(&self, schedule: ScheduleId, occurrence: Occurrence) -> StoreFuture<'_, ()>;

    /// Returns the occurrences of a schedule, newest first. Old ones are forgotten.
    fn occurrences(&self, schedule: ScheduleId, limit: usize) -> StoreFuture<'_, Vec<Occurrence>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    Pause,
    Resume { at: Timestamp, next_at: Option<Timestamp> },
}

/// A step of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleAdvance {
    pub schedule: ScheduleId,
    /// The `next_at` that was read.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub start: ScheduleStart,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleStart {
    /// A new occurrence, which this call claims.
    Occurrence(Occurrence),
    /// Nothing: the occurrence of this time still runs, and counts those that are skipped.
    Skipped { running: Timestamp },
}

/// The number of occurrences of a schedule that are kept.
pub const MAX_OCCURRENCES: usize = 100;
