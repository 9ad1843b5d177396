//! Schedules and their occurrences.

use std::path::{Path, PathBuf};

use angelia_core::{
    model::{
        MissedPolicy, Occurrence, OccurrenceStatus, OverlapPolicy, ScheduleId, ScheduleRecord,
        ScheduleSummary, TurnId,
    },
    ports::{
        MAX_OCCURRENCES, ScheduleAdvance, ScheduleChange, ScheduleStart, ScheduleStore, StoreFuture,
    },
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresStore,
    alone::Transaction,
    columns::{
        nanoseconds, optional_text, optional_time, parse_trigger, parse_variant, text, time,
        to_i64, uuid, word,
    },
    error::PgError,
};
use crate::store::unreadable::Unreadable;

/// The columns that [`summary`] reads: the schedule, and its newest occurrence.
const SELECT: &str = "SELECT s.id, s.spec, s.zone, s.prompt, s.profile, s.session, s.cwd,
        s.caller_cwd, s.target, s.missed, s.overlap, s.paused, s.created_at, s.active_since,
        s.next_at, o.due_at, o.claimed_at, o.ended_at, o.missed_since, o.skipped, o.turn_id,
        o.status, o.note
    FROM schedules s LEFT JOIN LATERAL (SELECT * FROM occurrences WHERE schedule_id = s.id
        ORDER BY due_at DESC LIMIT 1) o ON true";

/// The index of the first column of an occurrence in [`SELECT`].
const FIRST_OF_OCCURRENCE: usize = 15;

impl ScheduleStore for PostgresStore {
    fn add_schedule<'a>(&'a self, schedule: &'a ScheduleRecord) -> StoreFuture<'a, ()> {
        let schedule = schedule.clone();
        Box::pin(self.alone.write(async move |db| insert(db, &schedule).await))
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleSummary>> {
        Box::pin(async {
            self.readers.read(&format!("{SELECT} ORDER BY s.id"), &[], summary).await
        })
    }

    fn schedule(&self, id: ScheduleId) -> StoreFuture<'_, Option<ScheduleSummary>> {
        Box::pin(async move {
            let sql = format!("{SELECT} WHERE s.id = $1");
            let found = self.readers.read(&sql, &[&id.as_uuid()], summary).await?;
            Ok(found.into_iter().next())
        })
    }

    fn change_schedule(&self, id: ScheduleId, change: ScheduleChange) -> StoreFuture<'_, bool> {
        Box::pin(self.alone.write(async move |db| change_one(db, id, change).await))
    }

    fn remove_schedule(&self, id: ScheduleId) -> StoreFuture<'_, bool> {
        Box::pin(self.alone.write(async move |db| {
            Ok(db.execute("DELETE FROM schedules WHERE id = $1", &[&id.as_uuid()]).await? > 0)
        }))
    }

    fn advance_schedule(&self, advance: ScheduleAdvance) -> StoreFuture<'_, bool> {
        Box::pin(self.alone.write(async move |db| advance_one(db, &advance).await))
    }

    fn put_occurrence(&self, schedule: ScheduleId, occurrence: Occurrence) -> StoreFuture<'_, ()> {
        Box::pin(
            self.alone.write(async move |db| update_occurrence(db, schedule, &occurrence).await),
        )
    }

    fn occurrences(&self, schedule: ScheduleId, limit: usize) -> StoreFuture<'_, Vec<Occurrence>> {
        Box::pin(async move {
            let sql = "SELECT due_at, claimed_at, ended_at, missed_since, skipped, turn_id, status,
                    note
                FROM occurrences WHERE schedule_id = $1 ORDER BY due_at DESC LIMIT $2";
            let id = schedule.as_uuid();
            self.readers.read(sql, &[&id, &to_i64(limit)], |row| occurrence(row, 0)).await
        })
    }
}

async fn insert(db: &Transaction<'_>, schedule: &ScheduleRecord) -> Result<(), PgError> {
    let path = |path: Option<&Path>| path.map(|path| path.to_string_lossy().as_bytes().to_vec());
    let zone = schedule.trigger.zone().and_then(|zone| zone.iana_name().map(str::to_owned));
    db.execute(
        "INSERT INTO schedules (id, spec, zone, prompt, profile, session, cwd, caller_cwd,
            target, missed, overlap, paused, created_at, active_since, next_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        &[
            &schedule.id.as_uuid(),
            &schedule.trigger.to_string().as_bytes(),
            &zone,
            &schedule.prompt.as_bytes(),
            &schedule.profile.as_ref().map(|text| text.as_bytes()),
            &schedule.session.as_ref().map(|text| text.as_bytes()),
            &path(schedule.cwd.as_deref()),
            &path(schedule.caller_cwd.as_deref()),
            &schedule.to.as_ref().map(|text| text.as_bytes()),
            &schedule.missed.as_str(),
            &schedule.overlap.as_str(),
            &schedule.paused,
            &nanoseconds(schedule.created_at),
            &nanoseconds(schedule.active_since),
            &schedule.next_at.map(nanoseconds),
        ],
    )
    .await
    .map(drop)
}

async fn change_one(
    db: &Transaction<'_>,
    id: ScheduleId,
    change: ScheduleChange,
) -> Result<bool, PgError> {
    let id = id.as_uuid();
    let changed = match change {
        ScheduleChange::Pause => {
            db.execute("UPDATE schedules SET paused = true WHERE id = $1", &[&id]).await?
        }
        ScheduleChange::Resume { at, next_at } => {
            let sql = "UPDATE schedules SET paused = false, active_since = $2, next_at = $3
                WHERE id = $1";
            db.execute(sql, &[&id, &nanoseconds(at), &next_at.map(nanoseconds)]).await?
        }
    };
    Ok(changed > 0)
}

async fn advance_one(db: &Transaction<'_>, advance: &ScheduleAdvance) -> Result<bool, PgError> {
    let id = advance.schedule.as_uuid();
    // The row of the schedule is locked by whoever moves it first.
    let moved = db
        .execute(
            "UPDATE schedules SET next_at = $3
             WHERE id = $1 AND next_at IS NOT DISTINCT FROM $2 AND NOT paused",
            &[&id, &advance.from.map(nanoseconds), &advance.to.map(nanoseconds)],
        )
        .await?;
    if moved == 0 {
        return Ok(false);
    }
    match &advance.start {
        ScheduleStart::Occurrence(new) => {
            if insert_occurrence(db, advance.schedule, new).await? {
                return Ok(true);
            }
            // The time is claimed already: nothing changes.
            let back = "UPDATE schedules SET next_at = $2 WHERE id = $1";
            db.execute(back, &[&id, &advance.from.map(nanoseconds)]).await?;
            Ok(false)
        }
        ScheduleStart::Skipped { running } => {
            let sql = "UPDATE occurrences SET skipped = skipped + 1
                WHERE schedule_id = $1 AND due_at = $2";
            db.execute(sql, &[&id, &nanoseconds(*running)]).await?;
            Ok(true)
        }
    }
}

/// Returns whether the time was free.
async fn insert_occurrence(
    db: &Transaction<'_>,
    schedule: ScheduleId,
    new: &Occurrence,
) -> Result<bool, PgError> {
    let id = schedule.as_uuid();
    let inserted = db
        .execute(
            "INSERT INTO occurrences (schedule_id, due_at, claimed_at, ended_at, missed_since,
                skipped, turn_id, status, note)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
            &[
                &id,
                &nanoseconds(new.due_at),
                &nanoseconds(new.claimed_at),
                &new.ended_at.map(nanoseconds),
                &new.missed_since.map(nanoseconds),
                &to_i64(new.skipped),
                &new.turn.map(TurnId::as_uuid),
                &new.status.as_str(),
                &new.note.as_ref().map(|note| note.as_bytes()),
            ],
        )
        .await?;
    db.execute(
        "DELETE FROM occurrences WHERE schedule_id = $1 AND due_at NOT IN
            (SELECT due_at FROM occurrences WHERE schedule_id = $1 ORDER BY due_at DESC LIMIT $2)",
        &[&id, &to_i64(MAX_OCCURRENCES)],
    )
    .await?;
    Ok(inserted > 0)
}

async fn update_occurrence(
    db: &Transaction<'_>,
    schedule: ScheduleId,
    new: &Occurrence,
) -> Result<(), PgError> {
    db.execute(
        "UPDATE occurrences SET claimed_at = $3, ended_at = $4, missed_since = $5, turn_id = $6,
            status = $7, note = $8
         WHERE schedule_id = $1 AND due_at = $2",
        &[
            &schedule.as_uuid(),
            &nanoseconds(new.due_at),
            &nanoseconds(new.claimed_at),
            &new.ended_at.map(nanoseconds),
            &new.missed_since.map(nanoseconds),
            &new.turn.map(TurnId::as_uuid),
            &new.status.as_str(),
            &new.note.as_ref().map(|note| note.as_bytes()),
        ],
    )
    .await
    .map(drop)
}

fn summary(row: &Row) -> Result<ScheduleSummary, PgError> {
    let path = |column| Ok::<_, PgError>(optional_text(row, column)?.map(PathBuf::from));
    let record = ScheduleRecord {
        id: ScheduleId::from_uuid(uuid(row, 0)?),
        trigger: parse_trigger(text(row, 1)?, row.try_get(2)?)?,
        prompt: text(row, 3)?.into(),
        profile: optional_text(row, 4)?.map(Into::into),
        session: optional_text(row, 5)?.map(Into::into),
        cwd: path(6)?,
        caller_cwd: path(7)?,
        to: optional_text(row, 8)?.map(Into::into),
        missed: parse_variant(&MissedPolicy::ALL, MissedPolicy::as_str, word(row, 9)?)?,
        overlap: parse_variant(&OverlapPolicy::ALL, OverlapPolicy::as_str, word(row, 10)?)?,
        paused: row.try_get(11)?,
        created_at: time(row, 12)?,
        active_since: time(row, 13)?,
        next_at: optional_time(row, 14)?,
    };
    let last = match optional_time(row, FIRST_OF_OCCURRENCE)? {
        Some(_) => Some(occurrence(row, FIRST_OF_OCCURRENCE)?),
        None => None,
    };
    Ok(ScheduleSummary { record, last })
}

/// Reads an occurrence from the columns that begin at `first`.
fn occurrence(row: &Row, first: usize) -> Result<Occurrence, PgError> {
    let skipped: i64 = row.try_get(first + 4)?;
    Ok(Occurrence {
        due_at: time(row, first)?,
        claimed_at: time(row, first + 1)?,
        ended_at: optional_time(row, first + 2)?,
        missed_since: optional_time(row, first + 3)?,
        skipped: skipped.try_into().map_err(|_| Unreadable("a number of times".to_owned()))?,
        turn: row.try_get::<_, Option<Uuid>>(first + 5)?.map(TurnId::from_uuid),
        status: OccurrenceStatus::parse(word(row, first + 6)?),
        note: optional_text(row, first + 7)?.map(Into::into),
    })
}
