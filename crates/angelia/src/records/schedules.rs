//! The schedules of the daemon or the store.

use angelia_core::{
    engine::{EngineError, next_after_resume, short_id},
    model::{AuditAction, AuditActor, AuditEntry, ScheduleId, ScheduleRecord, ScheduleSummary},
    ports::{RecordKind, ScheduleChange, Store, StoreError},
};
use angelia_frontends::http::{
    NewScheduleBody,
    resources::{OccurrenceResource, ScheduleResource},
    schedule_audit_subject,
};
use jiff::Timestamp;
use uuid::Uuid;

use super::{Records, ids_starting};
use crate::{cli::error::CommandError, client::SCHEDULES_PATH};

/// Number of results shown for a schedule.
const MAX_RESULTS: usize = 20;

impl Records {
    /// Lists all schedules, oldest first.
    pub(crate) async fn schedules(&self) -> Result<Vec<ScheduleResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.schedules().await?),
            Self::Store(store) => {
                let mut shown = Vec::new();
                for summary in &store.schedules().await? {
                    shown.push(describe(&**store, summary).await?);
                }
                Ok(shown)
            }
        }
    }

    pub(crate) async fn schedules_starting(
        &self,
        start: &str,
        limit: usize,
    ) -> Result<Vec<ScheduleResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.find_by_prefix(SCHEDULES_PATH, start, limit).await?),
            Self::Store(store) => {
                let mut found = Vec::new();
                for id in ids_starting(&**store, RecordKind::Schedule, start, limit).await? {
                    found.push(self.schedule(ScheduleId::from_uuid(id)).await?);
                }
                Ok(found)
            }
        }
    }

    /// Returns a schedule with its last results.
    pub(crate) async fn schedule(&self, id: ScheduleId) -> Result<ScheduleResource, CommandError> {
        let store = match self {
            Self::Daemon(daemon) => return Ok(daemon.schedule(id).await?),
            Self::Store(store) => store,
        };
        let mut shown = describe(&**store, &find(&**store, id).await?).await?;
        for occurrence in &store.occurrences(id, MAX_RESULTS).await? {
            let mut result = occurrence.into();
            set_live_status(&**store, &mut result).await?;
            shown.results.push(result);
        }
        Ok(shown)
    }

    pub(crate) async fn add_schedule(
        &self,
        new: NewScheduleBody,
    ) -> Result<ScheduleResource, CommandError> {
        let store = match self {
            Self::Daemon(daemon) => return Ok(daemon.add_schedule(&new).await?),
            Self::Store(store) => store,
        };
        let record = new.into_record(Uuid::now_v7(), Timestamp::now());
        let record = record.map_err(CommandError::usage)?;
        store.add_schedule(&record).await?;
        audit(&**store, "added", &record).await?;
        Ok(describe(&**store, &ScheduleSummary { record, last: None }).await?)
    }

    pub(crate) async fn set_schedule_paused(
        &self,
        id: ScheduleId,
        paused: bool,
    ) -> Result<ScheduleResource, CommandError> {
        let store = match self {
            Self::Daemon(daemon) => return Ok(daemon.set_schedule_paused(id, paused).await?),
            Self::Store(store) => store,
        };
        let ScheduleSummary { record, last } = find(&**store, id).await?;
        if record.paused != paused {
            let at = Timestamp::now();
            let change = if paused {
                ScheduleChange::Pause
            } else {
                let next_at = next_after_resume(&record, last.as_ref(), at);
                ScheduleChange::Resume { at, next_at }
            };
            store.change_schedule(id, change).await?;
            audit(&**store, if paused { "paused" } else { "resumed" }, &record).await?;
        }
        Ok(describe(&**store, &find(&**store, id).await?).await?)
    }

    pub(crate) async fn remove_schedule(&self, id: ScheduleId) -> Result<(), CommandError> {
        let store = match self {
            Self::Daemon(daemon) => return Ok(daemon.remove_schedule(id).await?),
            Self::Store(store) => store,
        };
        let record = find(&**store, id).await?.record;
        store.remove_schedule(id).await?;
        Ok(audit(&**store, "removed", &record).await?)
    }
}

async fn find(store: &dyn Store, id: ScheduleId) -> Result<ScheduleSummary, CommandError> {
    let found = store.schedule(id).await?;
    found.ok_or_else(|| {
        CommandError::from(EngineError::NotFound("schedule"))
            .with_hint("`angelia schedule list` prints all of them")
    })
}

async fn audit(store: &dyn Store, what: &str, schedule: &ScheduleRecord) -> Result<(), StoreError> {
    let entry = AuditEntry {
        at: Timestamp::now(),
        actor: AuditActor::Terminal,
        action: AuditAction::Schedule,
        subject: schedule_audit_subject(what, schedule).into(),
    };
    store.record_audit(entry).await
}

async fn describe(
    store: &dyn Store,
    summary: &ScheduleSummary,
) -> Result<ScheduleResource, StoreError> {
    let mut shown = ScheduleResource::from(summary);
    shown.short_id = Some(short_id(store, RecordKind::Schedule, shown.id.as_uuid()).await?);
    if let Some(last) = &mut shown.last {
        set_live_status(store, last).await?;
    }
    Ok(shown)
}

/// Sets the current state of a turn that has not ended.
async fn set_live_status(
    store: &dyn Store,
    result: &mut OccurrenceResource,
) -> Result<(), StoreError> {
    if let (Some(turn), None) = (result.turn_id, result.ended_at)
        && let Some(turn) = store.turn(turn).await?
    {
        turn.state.as_str().clone_into(&mut result.status);
    }
    Ok(())
}
