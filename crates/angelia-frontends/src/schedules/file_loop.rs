//! Claims occurrences that are due because files have changed. Polls the files, for the reason that
//! `docs/design/0028-schedules.md` gives.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    engine::WatchedFiles,
    model::{Occurrence, ScheduleId, ScheduleSummary, Trigger},
    ports::{FileStamps, ScheduleAdvance, ScheduleStart},
};
use tokio::time::{Instant, sleep};

use super::{
    changed_names::prompt_with_names,
    scheduler::{MAX_SLEEP, Scheduler},
};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Polling takes at most 1/`MAX_SHARE` of the time.
const MAX_SHARE: u32 = 50;

#[derive(Default)]
struct WatchedSchedule {
    /// `None` until the files could be read for the first time.
    files: Option<WatchedFiles>,
    /// Whether the schedule's turn was running at the last check.
    was_running: bool,
    /// The error of the last read.
    error: Option<String>,
}

impl Scheduler {
    pub(super) async fn follow_files(&self) {
        let mut changes = self.parts.engine.subscribe_schedules();
        let mut watched: HashMap<ScheduleId, WatchedSchedule> = HashMap::new();
        loop {
            changes.mark_unchanged();
            let all = self.read_schedules(|trigger| matches!(trigger, Trigger::Watch(_))).await;
            let all = all.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read the schedules; trying again");
                Vec::new()
            });
            let all: Vec<_> = all.into_iter().filter(|one| !one.record.paused).collect();
            watched.retain(|id, _| all.iter().any(|one| one.record.id == *id));
            if all.is_empty() {
                tokio::select! {
                    () = sleep(MAX_SLEEP) => {}
                    // This fails only if the engine is gone, but we hold one.
                    _changed = changes.changed() => {}
                }
                continue;
            }
            let began = Instant::now();
            for summary in all {
                let entry = watched.entry(summary.record.id).or_default();
                self.look(summary, entry).await;
            }
            sleep(POLL_INTERVAL.max(began.elapsed() * MAX_SHARE)).await;
        }
    }

    /// Checks the files of one schedule, and starts its turn if they have changed.
    async fn look(&self, summary: ScheduleSummary, entry: &mut WatchedSchedule) {
        let ScheduleSummary { record, last } = summary;
        let Trigger::Watch(path) = &record.trigger else { return };
        let files = match self.read_files(path).await {
            Ok(files) => files,
            Err(error) => {
                if entry.error.as_ref() != Some(&error) {
                    tracing::warn!("the schedule {}: {error}", record.id);
                }
                entry.error = Some(error);
                return;
            }
        };
        entry.error = None;
        let now = self.parts.engine.now();
        let is_running = last.as_ref().is_some_and(Occurrence::is_open);
        // Files written between the last check and the end of the turn are also the turn's own.
        let is_own = is_running || entry.was_running;
        entry.was_running = is_running;
        let changed = match &mut entry.files {
            None => entry.files.insert(WatchedFiles::begin(&record, last.as_ref(), files, now)),
            Some(known) => {
                if is_own {
                    known.accept(files);
                } else {
                    known.observe(files, now);
                }
                known
            }
        };
        if is_running || self.parts.engine.is_draining() {
            return;
        }
        let Some(names) = changed.take_due(last.as_ref(), now) else { return };
        let occurrence = Occurrence::new(now, now);
        let claim = ScheduleAdvance {
            schedule: record.id,
            from: None,
            to: None,
            start: ScheduleStart::Occurrence(occurrence.clone()),
        };
        match self.parts.engine.advance_schedule(claim).await {
            Ok(true) => {
                // Set until the next check shows that the turn runs.
                entry.was_running = true;
                let prompt = prompt_with_names(&record.prompt, &names);
                self.spawn_run(record, occurrence, |run| run.start(prompt));
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot run the schedule {}", record.id),
        }
    }

    async fn read_files(&self, path: &Path) -> Result<FileStamps, String> {
        let (times, path) = (Arc::clone(&self.parts.file_times), path.to_path_buf());
        let reading = tokio::task::spawn_blocking(move || times.read(&path));
        reading.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}
