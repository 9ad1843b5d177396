//! The part of the store that keeps schedules and their occurrences.

use jiff::Timestamp;

use super::StoreFuture;
use crate::model::{Occurrence, ScheduleId, ScheduleRecord, ScheduleSummary};

pub trait ScheduleStore: Send + Sync + 'static {
    fn add_schedule<'a>(&'a self, schedule: &'a ScheduleRecord) -> StoreFuture<'a, ()>;

    /// Lists all schedules, oldest first.
    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleSummary>>;

    fn schedule(&self, id: ScheduleId) -> StoreFuture<'_, Option<ScheduleSummary>>;

    /// Changes a schedule and returns whether it exists.
    fn change_schedule(&self, id: ScheduleId, change: ScheduleChange) -> StoreFuture<'_, bool>;

    /// Removes a schedule with its occurrences. Returns whether it existed.
    fn remove_schedule(&self, id: ScheduleId) -> StoreFuture<'_, bool>;

    /// Moves a schedule to its next occurrence, in one transaction with the new or skipped occurrence.
    /// Returns `false` and changes nothing if the schedule no longer exists, is paused, or is no longer at
    /// `from`, or if the occurrence already exists.
    fn advance_schedule(&self, advance: ScheduleAdvance) -> StoreFuture<'_, bool>;

    /// Replaces the occurrence with the same time, but keeps its count of skipped occurrences. Does nothing
    /// if it no longer exists.
    fn put_occurrence(&self, schedule: ScheduleId, occurrence: Occurrence) -> StoreFuture<'_, ()>;

    /// Returns the occurrences of a schedule, newest first. Old ones are deleted.
    fn occurrences(&self, schedule: ScheduleId, limit: usize) -> StoreFuture<'_, Vec<Occurrence>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    Pause,
    Resume { at: Timestamp, next_at: Option<Timestamp> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleAdvance {
    pub schedule: ScheduleId,
    /// The `next_at` that the caller read.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub start: ScheduleStart,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleStart {
    /// A new occurrence, claimed by this call.
    Occurrence(Occurrence),
    /// No new occurrence: the one due at this time is still running, and counts the skipped ones.
    Skipped { running: Timestamp },
}

/// Number of occurrences kept per schedule.
pub const MAX_OCCURRENCES: usize = 100;
