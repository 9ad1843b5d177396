//! Schedules and their occurrences.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{
        MissedPolicy, Occurrence, OccurrenceStatus, OverlapPolicy, ScheduleId, ScheduleRecord,
        ScheduleSummary, TurnId,
    },
    ports::{
        MAX_OCCURRENCES, ScheduleAdvance, ScheduleChange, ScheduleStart, ScheduleStore, StoreFuture,
    },
};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore,
    columns::{nanoseconds, parse_trigger, parse_variant, timestamp, to_i64, uuid},
    error::SqliteError,
    read::{column_text, query_all},
    writer::Db,
};

/// The columns that [`summary`] reads: the schedule, and its newest occurrence.
const SELECT: &str = "SELECT s.id, s.spec, s.zone, s.prompt, s.profile, s.session, s.cwd,
        s.caller_cwd, s.target, s.missed, s.overlap, s.paused, s.created_at, s.active_since,
        s.next_at, o.due_at, o.claimed_at, o.ended_at, o.missed_since, o.skipped, o.turn_id,
        o.status, o.note
    FROM schedules s LEFT JOIN occurrences o ON o.schedule_id = s.id AND o.due_at =
        (SELECT max(due_at) FROM occurrences WHERE schedule_id = s.id)";

/// The index of the first column of an occurrence in [`SELECT`].
const FIRST_OF_OCCURRENCE: usize = 15;

impl ScheduleStore for SqliteStore {
    fn add_schedule<'a>(&'a self, schedule: &'a ScheduleRecord) -> StoreFuture<'a, ()> {
        let schedule = schedule.clone();
        Box::pin(self.writer.write(move |db| insert(db, &schedule)))
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleSummary>> {
        let sql = format!("{SELECT} ORDER BY s.id");
        Box::pin(self.readers.read(move |db| query_all(db, &sql, [], summary)))
    }

    fn schedule(&self, id: ScheduleId) -> StoreFuture<'_, Option<ScheduleSummary>> {
        let sql = format!("{SELECT} WHERE s.id = ?1");
        self.readers.look_up(move |db| {
            let found = query_all(db, &sql, [id.as_uuid().as_bytes()], summary)?;
            Ok(found.into_iter().next())
        })
    }

    fn change_schedule(&self, id: ScheduleId, change: ScheduleChange) -> StoreFuture<'_, bool> {
        Box::pin(self.writer.write(move |db| change_one(db, id, change)))
    }

    fn remove_schedule(&self, id: ScheduleId) -> StoreFuture<'_, bool> {
        Box::pin(self.writer.write(move |db| {
            let mut delete = db.connection.prepare_cached("DELETE FROM schedules WHERE id = ?1")?;
            Ok(delete.execute([id.as_uuid().as_bytes()])? > 0)
        }))
    }

    fn advance_schedule(&self, advance: ScheduleAdvance) -> StoreFuture<'_, bool> {
        Box::pin(self.writer.write(move |db| advance_one(db, &advance)))
    }

    fn put_occurrence(&self, schedule: ScheduleId, occurrence: Occurrence) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |db| update_occurrence(db, schedule, &occurrence)))
    }

    fn occurrences(&self, schedule: ScheduleId, limit: usize) -> StoreFuture<'_, Vec<Occurrence>> {
        Box::pin(self.readers.read(move |db| list_occurrences(db, schedule, limit)))
    }
}

fn insert(db: &Db, schedule: &ScheduleRecord) -> Result<(), SqliteError> {
    let path =
        |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let zone = schedule.trigger.zone().and_then(|zone| zone.iana_name());
    db.connection
        .prepare_cached(
            "INSERT INTO schedules (id, spec, zone, prompt, profile, session, cwd, caller_cwd,
                target, missed, overlap, paused, created_at, active_since, next_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            schedule.id.as_uuid().as_bytes(),
            schedule.trigger.to_string(),
            zone,
            schedule.prompt,
            schedule.profile,
            schedule.session,
            path(&schedule.cwd),
            path(&schedule.caller_cwd),
            schedule.to,
            schedule.missed.as_str(),
            schedule.overlap.as_str(),
            schedule.paused,
            nanoseconds(schedule.created_at),
            nanoseconds(schedule.active_since),
            schedule.next_at.map(nanoseconds),
        ])?;
    Ok(())
}

fn change_one(db: &Db, id: ScheduleId, change: ScheduleChange) -> Result<bool, SqliteError> {
    let id = *id.as_uuid().as_bytes();
    let changed = match change {
        ScheduleChange::Pause => db
            .connection
            .prepare_cached("UPDATE schedules SET paused = 1 WHERE id = ?1")?
            .execute(params![id])?,
        ScheduleChange::Resume { at, next_at } => db
            .connection
            .prepare_cached(
                "UPDATE schedules SET paused = 0, active_since = ?2, next_at = ?3 WHERE id = ?1",
            )?
            .execute(params![id, nanoseconds(at), next_at.map(nanoseconds)])?,
    };
    Ok(changed > 0)
}

fn advance_one(db: &Db, advance: &ScheduleAdvance) -> Result<bool, SqliteError> {
    let id = *advance.schedule.as_uuid().as_bytes();
    if let ScheduleStart::Occurrence(new) = &advance.start {
        let is_known: bool = db
            .connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM occurrences WHERE schedule_id = ?1 AND due_at = ?2)",
            )?
            .query_row(params![id, nanoseconds(new.due_at)], |row| row.get(0))?;
        if is_known {
            return Ok(false);
        }
    }
    let moved = db
        .connection
        .prepare_cached(
            "UPDATE schedules SET next_at = ?3 WHERE id = ?1 AND next_at IS ?2 AND paused = 0",
        )?
        .execute(params![id, advance.from.map(nanoseconds), advance.to.map(nanoseconds)])?;
    if moved == 0 {
        return Ok(false);
    }
    match &advance.start {
        ScheduleStart::Occurrence(new) => insert_occurrence(db, advance.schedule, new)?,
        ScheduleStart::Skipped { running } => {
            db.connection
                .prepare_cached(
                    "UPDATE occurrences SET skipped = skipped + 1
                     WHERE schedule_id = ?1 AND due_at = ?2",
                )?
                .execute(params![id, nanoseconds(*running)])?;
        }
    }
    Ok(true)
}

fn insert_occurrence(db: &Db, schedule: ScheduleId, new: &Occurrence) -> Result<(), SqliteError> {
    let id = *schedule.as_uuid().as_bytes();
    db.connection
        .prepare_cached(
            "INSERT INTO occurrences (schedule_id, due_at, claimed_at, ended_at, missed_since,
                skipped, turn_id, status, note)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            id,
            nanoseconds(new.due_at),
            nanoseconds(new.claimed_at),
            new.ended_at.map(nanoseconds),
            new.missed_since.map(nanoseconds),
            new.skipped,
            new.turn.map(|turn| *turn.as_uuid().as_bytes()),
            new.status.as_str(),
            new.note,
        ])?;
    db.connection
        .prepare_cached(
            "DELETE FROM occurrences WHERE schedule_id = ?1 AND due_at NOT IN
                (SELECT due_at FROM occurrences WHERE schedule_id = ?1
                 ORDER BY due_at DESC LIMIT ?2)",
        )?
        .execute(params![id, to_i64(MAX_OCCURRENCES)])?;
    Ok(())
}

fn update_occurrence(db: &Db, schedule: ScheduleId, new: &Occurrence) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached(
            "UPDATE occurrences SET claimed_at = ?3, ended_at = ?4, missed_since = ?5,
                turn_id = ?6, status = ?7, note = ?8
             WHERE schedule_id = ?1 AND due_at = ?2",
        )?
        .execute(params![
            schedule.as_uuid().as_bytes(),
            nanoseconds(new.due_at),
            nanoseconds(new.claimed_at),
            new.ended_at.map(nanoseconds),
            new.missed_since.map(nanoseconds),
            new.turn.map(|turn| *turn.as_uuid().as_bytes()),
            new.status.as_str(),
            new.note,
        ])?;
    Ok(())
}

fn list_occurrences(
    db: &Connection,
    schedule: ScheduleId,
    limit: usize,
) -> Result<Vec<Occurrence>, SqliteError> {
    let sql = "SELECT due_at, claimed_at, ended_at, missed_since, skipped, turn_id, status, note
        FROM occurrences WHERE schedule_id = ?1 ORDER BY due_at DESC LIMIT ?2";
    let id = schedule.as_uuid();
    query_all(db, sql, params![id.as_bytes(), to_i64(limit)], |row| occurrence(row, 0))
}

fn summary(row: &Row<'_>) -> Result<ScheduleSummary, SqliteError> {
    let text = |column| Ok::<_, SqliteError>(row.get::<_, Option<Arc<str>>>(column)?);
    let path =
        |column| Ok::<_, SqliteError>(row.get::<_, Option<String>>(column)?.map(PathBuf::from));
    let record = ScheduleRecord {
        id: ScheduleId::from_uuid(uuid(row, 0)?),
        trigger: parse_trigger(column_text(row, 1)?, text(2)?.as_deref())?,
        prompt: column_text(row, 3)?.into(),
        profile: text(4)?,
        session: text(5)?,
        cwd: path(6)?,
        caller_cwd: path(7)?,
        to: text(8)?,
        missed: parse_variant(&MissedPolicy::ALL, MissedPolicy::as_str, column_text(row, 9)?)?,
        overlap: parse_variant(&OverlapPolicy::ALL, OverlapPolicy::as_str, column_text(row, 10)?)?,
        paused: row.get(11)?,
        created_at: timestamp(row.get(12)?),
        active_since: timestamp(row.get(13)?),
        next_at: time(row, 14)?,
    };
    let last = match row.get::<_, Option<i64>>(FIRST_OF_OCCURRENCE)? {
        Some(_) => Some(occurrence(row, FIRST_OF_OCCURRENCE)?),
        None => None,
    };
    Ok(ScheduleSummary { record, last })
}

/// Reads an occurrence from the columns that begin at `first`.
fn occurrence(row: &Row<'_>, first: usize) -> Result<Occurrence, SqliteError> {
    let turn = row.get::<_, Option<[u8; 16]>>(first + 5)?;
    Ok(Occurrence {
        due_at: timestamp(row.get(first)?),
        claimed_at: timestamp(row.get(first + 1)?),
        ended_at: time(row, first + 2)?,
        missed_since: time(row, first + 3)?,
        skipped: row.get(first + 4)?,
        turn: turn.map(|id| TurnId::from_uuid(Uuid::from_bytes(id))),
        status: OccurrenceStatus::parse(column_text(row, first + 6)?),
        note: row.get(first + 7)?,
    })
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, SqliteError> {
    Ok(row.get::<_, Option<i64>>(column)?.map(timestamp))
}
