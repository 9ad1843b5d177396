//! Schedules and their occurrences.

use std::collections::{BTreeMap, btree_map::Entry};

use angelia_core::{
    model::{Occurrence, ScheduleId, ScheduleRecord, ScheduleSummary},
    ports::{
        MAX_OCCURRENCES, ScheduleAdvance, ScheduleChange, ScheduleStart, ScheduleStore, StoreError,
        StoreFuture,
    },
};
use jiff::Timestamp;

use super::MemoryStore;

#[derive(Debug)]
pub(super) struct ScheduleEntry {
    record: ScheduleRecord,
    occurrences: BTreeMap<Timestamp, Occurrence>,
}

impl ScheduleEntry {
    fn summary(&self) -> ScheduleSummary {
        let last = self.occurrences.values().next_back().cloned();
        ScheduleSummary { record: self.record.clone(), last }
    }

    fn advance(&mut self, advance: &ScheduleAdvance) -> bool {
        if self.record.paused || self.record.next_at != advance.from {
            return false;
        }
        match &advance.start {
            ScheduleStart::Occurrence(new) => match self.occurrences.entry(new.due_at) {
                Entry::Occupied(_) => return false,
                Entry::Vacant(free) => drop(free.insert(new.clone())),
            },
            ScheduleStart::Skipped { running } => {
                if let Some(running) = self.occurrences.get_mut(running) {
                    running.skipped += 1;
                }
            }
        }
        while self.occurrences.len() > MAX_OCCURRENCES {
            self.occurrences.pop_first();
        }
        self.record.next_at = advance.to;
        true
    }
}

impl ScheduleStore for MemoryStore {
    fn add_schedule<'a>(&'a self, schedule: &'a ScheduleRecord) -> StoreFuture<'a, ()> {
        self.run(|kept| match kept.schedules.entry(schedule.id) {
            Entry::Occupied(_) => Err(StoreError::Conflict),
            Entry::Vacant(free) => {
                let record = schedule.clone();
                free.insert(ScheduleEntry { record, occurrences: BTreeMap::new() });
                Ok(())
            }
        })
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleSummary>> {
        self.run(|kept| Ok(kept.schedules.values().map(ScheduleEntry::summary).collect()))
    }

    fn schedule(&self, id: ScheduleId) -> StoreFuture<'_, Option<ScheduleSummary>> {
        self.run(|kept| Ok(kept.schedules.get(&id).map(ScheduleEntry::summary)))
    }

    fn change_schedule(&self, id: ScheduleId, change: ScheduleChange) -> StoreFuture<'_, bool> {
        self.run(|kept| {
            let Some(entry) = kept.schedules.get_mut(&id) else { return Ok(false) };
            match change {
                ScheduleChange::Pause => entry.record.paused = true,
                ScheduleChange::Resume { at, next_at } => {
                    entry.record.paused = false;
                    entry.record.active_since = at;
                    entry.record.next_at = next_at;
                }
            }
            Ok(true)
        })
    }

    fn remove_schedule(&self, id: ScheduleId) -> StoreFuture<'_, bool> {
        self.run(|kept| Ok(kept.schedules.remove(&id).is_some()))
    }

    fn advance_schedule(&self, advance: ScheduleAdvance) -> StoreFuture<'_, bool> {
        self.run(|kept| {
            let entry = kept.schedules.get_mut(&advance.schedule);
            Ok(entry.is_some_and(|entry| entry.advance(&advance)))
        })
    }

    fn put_occurrence(&self, schedule: ScheduleId, occurrence: Occurrence) -> StoreFuture<'_, ()> {
        self.run(|kept| {
            let entry = kept.schedules.get_mut(&schedule);
            if let Some(known) =
                entry.and_then(|entry| entry.occurrences.get_mut(&occurrence.due_at))
            {
                *known = Occurrence { skipped: known.skipped, ..occurrence };
            }
            Ok(())
        })
    }

    fn occurrences(&self, schedule: ScheduleId, limit: usize) -> StoreFuture<'_, Vec<Occurrence>> {
        self.run(|kept| {
            let entry = kept.schedules.get(&schedule);
            let newest_first = entry.into_iter().flat_map(|entry| entry.occurrences.values().rev());
            Ok(newest_first.take(limit).cloned().collect())
        })
    }
}
