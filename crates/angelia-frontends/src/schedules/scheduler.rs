//! Claims occurrences that are due by time, and resumes those that a killed process left open.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use angelia_core::{
    engine::{DueOccurrence, Engine, EngineError, ScheduleStep, next_step},
    model::{Occurrence, OccurrenceStatus, ScheduleId, ScheduleRecord, ScheduleSummary, Trigger},
    ports::{FileTimes, Profiles, ScheduleAdvance, ScheduleStart},
    task::TaskGroup,
};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{occurrence_run::OccurrenceRun, result_delivery::ResultDelivery};

/// The longest sleep. The wall clock may be changed, or advance while the machine sleeps.
pub(super) const MAX_SLEEP: Duration = Duration::from_secs(30);

/// The shortest sleep, used after another writer was faster.
const MIN_SLEEP: Duration = Duration::from_millis(5);

/// How often to check for the end of a drain.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(500);

pub struct SchedulerParts {
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub results: ResultDelivery,
    pub file_times: Arc<dyn FileTimes>,
    pub tasks: TaskGroup,
}

/// Runs schedules until its tasks stop. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler {
    pub(super) parts: Arc<SchedulerParts>,
    pub(super) running: RunningOccurrences,
}

/// The occurrences that this process is working on, by schedule and time.
pub(super) type RunningOccurrences = Arc<Mutex<HashSet<(ScheduleId, Timestamp)>>>;

impl Scheduler {
    /// Starts the scheduler. The caller must have closed the lost turns of earlier processes.
    pub fn spawn(parts: SchedulerParts) {
        let tasks = parts.tasks.clone();
        let scheduler = Self { parts: Arc::new(parts), running: RunningOccurrences::default() };
        let files = scheduler.clone();
        tasks.spawn_until_stopped(async move { files.follow_files().await });
        tasks.spawn_until_stopped(async move { scheduler.follow_time().await });
    }

    /// Reads the schedules that `is_mine` selects, and resumes their open occurrences that no task
    /// works on: an earlier process was killed, or the store's answer to the claim was lost. Only
    /// the caller starts occurrences of these schedules.
    pub(super) async fn read_schedules(
        &self,
        is_mine: impl Fn(&Trigger) -> bool,
    ) -> Result<Vec<ScheduleSummary>, EngineError> {
        // Copied before the schedules are read, so that an occurrence that ends in between does not
        // look abandoned.
        let running = self.running.lock().clone();
        let mut schedules = self.parts.engine.schedules().await?;
        schedules.retain(|one| is_mine(&one.record.trigger));
        for ScheduleSummary { record, last } in &schedules {
            if let Some(open) = last.as_ref().filter(|last| last.is_open())
                && !running.contains(&(record.id, open.due_at))
            {
                self.spawn_run(record.clone(), open.clone(), OccurrenceRun::resume);
            }
        }
        Ok(schedules)
    }

    async fn follow_time(&self) {
        let mut changes = self.parts.engine.subscribe_schedules();
        loop {
            changes.mark_unchanged();
            let pause = match self.step_all().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "cannot run the schedules; trying again");
                    MAX_SLEEP
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                // This fails only if the engine is gone, but we hold one.
                _changed = changes.changed() => {}
            }
        }
    }

    /// Takes all due steps, and returns the time to sleep.
    async fn step_all(&self) -> Result<Duration, EngineError> {
        // Occurrences that come due now are claimed after the drain, or by the next process.
        if self.parts.engine.is_draining() {
            return Ok(DRAIN_CHECK_INTERVAL);
        }
        let mut wake_at: Option<Timestamp> = None;
        for summary in self.read_schedules(|trigger| !matches!(trigger, Trigger::Watch(_))).await? {
            let next = self.step(summary).await?;
            wake_at = wake_at.into_iter().chain(next).min();
        }
        let now = self.parts.engine.now();
        let pause = wake_at.map_or(SignedDuration::MAX, |at| at.duration_since(now));
        let pause = Duration::try_from(pause).unwrap_or_default();
        Ok(pause.clamp(MIN_SLEEP, MAX_SLEEP))
    }

    /// Takes the due step of one schedule, and returns the time of the next check.
    async fn step(&self, summary: ScheduleSummary) -> Result<Option<Timestamp>, EngineError> {
        let ScheduleSummary { record, last } = summary;
        let now = self.parts.engine.now();
        let advance =
            |to, start| ScheduleAdvance { schedule: record.id, from: record.next_at, to, start };
        match next_step(&record, last.as_ref(), now) {
            ScheduleStep::Wait(next) => Ok(next),
            // The end of the running occurrence wakes this loop.
            ScheduleStep::Hold => Ok(None),
            ScheduleStep::Skip { running, next_at } => {
                let skip = advance(next_at, ScheduleStart::Skipped { running });
                let was_first = self.parts.engine.advance_schedule(skip).await?;
                Ok(if was_first { next_at } else { Some(now) })
            }
            ScheduleStep::Miss(due) => {
                let missed = Occurrence {
                    ended_at: Some(now),
                    status: OccurrenceStatus::Missed,
                    ..begin(due, now)
                };
                let claim = advance(due.next_at, ScheduleStart::Occurrence(missed));
                if self.parts.engine.advance_schedule(claim).await? {
                    tracing::warn!("the schedule {} missed {}", record.id, due.due_at);
                    return Ok(due.next_at);
                }
                Ok(Some(now))
            }
            ScheduleStep::Run(due) => {
                let occurrence = begin(due, now);
                let start = ScheduleStart::Occurrence(occurrence.clone());
                let claim = advance(due.next_at, start);
                if !self.parts.engine.advance_schedule(claim).await? {
                    return Ok(Some(now));
                }
                let prompt = record.prompt.to_string();
                self.spawn_run(record, occurrence, |run| run.start(prompt));
                Ok(due.next_at)
            }
        }
    }

    /// Works on a claimed occurrence in a separate task.
    pub(super) fn spawn_run<F>(
        &self,
        schedule: ScheduleRecord,
        occurrence: Occurrence,
        work: impl FnOnce(OccurrenceRun) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.running.lock().insert((schedule.id, occurrence.due_at));
        let (parts, running) = (Arc::clone(&self.parts), Arc::clone(&self.running));
        let run = OccurrenceRun { parts, running, schedule, occurrence };
        self.parts.tasks.spawn_until_stopped(work(run));
    }
}

fn begin(due: DueOccurrence, now: Timestamp) -> Occurrence {
    Occurrence { missed_since: due.missed_since, ..Occurrence::new(due.due_at, now) }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

impl fmt::Debug for SchedulerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("engine", &self.engine).finish_non_exhaustive()
    }
}
