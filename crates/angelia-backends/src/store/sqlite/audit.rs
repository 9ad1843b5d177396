//! The audit. Triggers in the schema refuse to change or delete its rows.

use angelia_core::{
    model::{AuditEntry, AuditRecord},
    ports::AuditQuery,
};
use rusqlite::{Connection, params};

use super::{
    columns::{nanoseconds, timestamp, to_i64, to_u64},
    error::SqliteError,
    read,
    writer::Db,
};

pub(super) fn insert(db: &Db, entry: &AuditEntry) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached("INSERT INTO audit (at, actor, action, subject) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            nanoseconds(entry.at),
            entry.actor.to_string(),
            entry.action.as_str(),
            entry.subject
        ])?;
    Ok(())
}

/// Returns the newest rows first.
pub(super) fn list(db: &Connection, query: AuditQuery) -> Result<Vec<AuditRecord>, SqliteError> {
    let sql = "SELECT number, at, actor, action, subject FROM audit
        WHERE number < ?1 AND at >= ?2 ORDER BY number DESC LIMIT ?3";
    let before = query.before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
    let since = query.since.map_or(i64::MIN, nanoseconds);
    read::query_all(db, sql, params![before, since, to_i64(query.limit)], |row| {
        let word = |index: usize| row.get::<_, String>(index);
        let unreadable = |index: usize| {
            rusqlite::Error::InvalidColumnType(
                index,
                "audit".to_owned(),
                rusqlite::types::Type::Text,
            )
        };
        Ok(AuditRecord {
            number: to_u64(row.get(0)?),
            entry: AuditEntry {
                at: timestamp(row.get(1)?),
                actor: word(2)?.parse().map_err(|_| unreadable(2))?,
                action: word(3)?.parse().map_err(|_| unreadable(3))?,
                subject: word(4)?.into(),
            },
        })
    })
}
