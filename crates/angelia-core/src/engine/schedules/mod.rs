//! Schedules: [`next_step`] decides what is due by time and [`WatchedFiles`] what is due by files.
//! The methods here store and list schedules for the frontends.

mod step;
mod watched_files;

use jiff::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

pub use self::{
    step::{DueOccurrence, ScheduleStep, next_after_resume, next_step},
    watched_files::WatchedFiles,
};
use super::{Engine, EngineError, RequestKey};
use crate::{
    model::{Occurrence, ScheduleId, ScheduleRecord, ScheduleSummary, SessionId, TurnId},
    ports::{ClaimOutcome, ScheduleAdvance, ScheduleChange},
};

impl Engine {
    pub async fn add_schedule(&self, schedule: &ScheduleRecord) -> Result<(), EngineError> {
        self.shared.store.add_schedule(schedule).await?;
        self.notify_schedules();
        Ok(())
    }

    /// Lists all schedules, oldest first.
    pub async fn schedules(&self) -> Result<Vec<ScheduleSummary>, EngineError> {
        Ok(self.shared.store.schedules().await?)
    }

    pub async fn schedule(&self, id: ScheduleId) -> Result<ScheduleSummary, EngineError> {
        let found = self.shared.store.schedule(id).await?;
        found.ok_or(EngineError::NotFound("schedule"))
    }

    /// Pauses or resumes a schedule. Occurrences that came due during the pause are left out.
    pub async fn set_schedule_paused(
        &self,
        id: ScheduleId,
        paused: bool,
    ) -> Result<ScheduleSummary, EngineError> {
        let ScheduleSummary { record, last } = self.schedule(id).await?;
        if record.paused != paused {
            let now = self.now();
            let change = if paused {
                ScheduleChange::Pause
            } else {
                let next_at = next_after_resume(&record, last.as_ref(), now);
                ScheduleChange::Resume { at: now, next_at }
            };
            self.shared.store.change_schedule(id, change).await?;
            self.notify_schedules();
        }
        self.schedule(id).await
    }

    /// Removes a schedule. A running turn of it goes on.
    pub async fn remove_schedule(&self, id: ScheduleId) -> Result<(), EngineError> {
        if !self.shared.store.remove_schedule(id).await? {
            return Err(EngineError::NotFound("schedule"));
        }
        self.notify_schedules();
        Ok(())
    }

    /// Lists the occurrences of a schedule, newest first.
    pub async fn occurrences(
        &self,
        id: ScheduleId,
        limit: usize,
    ) -> Result<Vec<Occurrence>, EngineError> {
        Ok(self.shared.store.occurrences(id, limit).await?)
    }

    /// Claims an occurrence, or leaves it out; see
    /// [`ScheduleStore::advance_schedule`](crate::ports::ScheduleStore::advance_schedule).
    pub async fn advance_schedule(&self, advance: ScheduleAdvance) -> Result<bool, EngineError> {
        Ok(self.shared.store.advance_schedule(advance).await?)
    }

    /// Records the progress or the result of an occurrence.
    pub async fn put_occurrence(
        &self,
        id: ScheduleId,
        occurrence: Occurrence,
    ) -> Result<(), EngineError> {
        let has_ended = !occurrence.is_open();
        self.shared.store.put_occurrence(id, occurrence).await?;
        if has_ended {
            self.notify_schedules();
        }
        Ok(())
    }

    /// Returns the turn that was submitted under a key, whatever its input, if there is one.
    pub async fn find_by_key(&self, key: RequestKey) -> Result<Option<TurnId>, EngineError> {
        let claim = key.into_claim(self.now(), SessionId::from_uuid(Uuid::nil()), &[]);
        match self.shared.store.check_claim(&claim).await? {
            ClaimOutcome::New => Ok(None),
            ClaimOutcome::Repeats(turn) | ClaimOutcome::Conflicts(turn) => Ok(Some(turn)),
        }
    }

    /// Changes whenever a schedule was added, changed or removed, or an occurrence has ended.
    pub fn subscribe_schedules(&self) -> watch::Receiver<u64> {
        self.shared.schedule_changes.subscribe()
    }

    /// The time of the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// A new id of the engine's clock.
    pub fn fresh_id(&self) -> Uuid {
        self.shared.clock.fresh_uuid()
    }

    fn notify_schedules(&self) {
        self.shared.schedule_changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}
