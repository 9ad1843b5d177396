//! The watched files of a schedule. Detects changes and decides when they make the schedule due.
//! Pure: the file stamps and the time are arguments.

use std::{collections::BTreeSet, path::PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::{
    model::{MissedPolicy, Occurrence, ScheduleRecord},
    ports::FileStamps,
};

/// How long the files must stay unchanged before the schedule is due.
const SETTLE_TIME: SignedDuration = SignedDuration::from_secs(2);

/// Minimum time between two occurrences.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug)]
pub struct WatchedFiles {
    seen: FileStamps,
    changed: BTreeSet<PathBuf>,
    changed_at: Timestamp,
}

impl WatchedFiles {
    /// Starts watching with the files as they are now. Changes that happened while no daemon was
    /// watching also count, unless the schedule skips missed occurrences.
    pub fn begin(
        schedule: &ScheduleRecord,
        last: Option<&Occurrence>,
        files: FileStamps,
        now: Timestamp,
    ) -> Self {
        let handled = last.map(|last| last.ended_at.unwrap_or(last.claimed_at));
        let since = handled.map_or(schedule.active_since, |at| at.max(schedule.active_since));
        let is_missed = |modified_at| modified_at > since && modified_at <= now;
        let changed = match schedule.missed {
            MissedPolicy::Skip => BTreeSet::new(),
            MissedPolicy::RunOnce => {
                let missed = files.iter().filter(|(_, stamp)| is_missed(stamp.modified_at));
                missed.map(|(name, _)| name.clone()).collect()
            }
        };
        Self { seen: files, changed, changed_at: now }
    }

    /// Records the differences from the files seen before.
    pub fn observe(&mut self, files: FileStamps, now: Timestamp) {
        let written = files.iter().filter(|(name, stamp)| self.seen.get(*name) != Some(*stamp));
        let removed = self.seen.keys().filter(|name| !files.contains_key(*name));
        let names: Vec<PathBuf> = written.map(|(name, _)| name).chain(removed).cloned().collect();
        if !names.is_empty() {
            self.changed.extend(names);
            self.changed_at = now;
        }
        self.seen = files;
    }

    /// Takes the current files as the new baseline, because the schedule's own turn has written
    /// them.
    pub fn accept(&mut self, files: FileStamps) {
        self.seen = files;
    }

    /// Returns the names of the changed files if the schedule is due, and forgets the changes.
    pub fn take_due(&mut self, last: Option<&Occurrence>, now: Timestamp) -> Option<Vec<PathBuf>> {
        // The clock may have been set back.
        let passed = |since: Timestamp| now.duration_since(since).abs();
        let is_due = !self.changed.is_empty()
            && passed(self.changed_at) >= SETTLE_TIME
            && last.is_none_or(|last| passed(last.claimed_at) >= MIN_INTERVAL);
        is_due.then(|| std::mem::take(&mut self.changed).into_iter().collect())
    }
}
