//! Records about callers of the model APIs: hashes of their conversations, and their costs.

use angelia_core::ports::{HistoryEntry, StoreError};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::{
    columns::{nanoseconds, session_id, timestamp, to_i64, to_u64, turn_id},
    error::SqliteError,
    read,
    writer::Db,
};

pub(super) fn note_history(db: &Db, note: &HistoryEntry) -> Result<(), SqliteError> {
    let turn = note.turn.as_uuid();
    let known = db
        .connection
        .prepare_cached("SELECT 1 FROM turns WHERE id = ?1 AND session_id = ?2")?
        .exists(params![turn.as_bytes(), note.session.as_uuid().as_bytes()])?;
    if !known {
        return Err(StoreError::TURN_NOT_FOUND.into());
    }
    db.connection
        .prepare_cached(
            "INSERT INTO histories (hash, turn_id, seq, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![note.hash, turn.as_bytes(), to_i64(note.seq), nanoseconds(note.at)])?;
    Ok(())
}

pub(super) fn find_by_history(
    db: &Connection,
    hash: [u8; 32],
    limit: usize,
) -> Result<Vec<HistoryEntry>, SqliteError> {
    let sql = "SELECT t.session_id, h.turn_id, h.seq, h.at
        FROM histories h JOIN turns t ON t.id = h.turn_id
        WHERE h.hash = ?1 ORDER BY t.number DESC, h.seq DESC LIMIT ?2";
    read::query_all(db, sql, params![hash, to_i64(limit)], |row| {
        Ok(HistoryEntry {
            hash,
            session: session_id(row, 0)?,
            turn: turn_id(row, 1)?,
            seq: to_u64(row.get(2)?),
            at: timestamp(row.get(3)?),
        })
    })
}

pub(super) fn total_cost(
    db: &Connection,
    caller: &str,
    since: Timestamp,
) -> Result<f64, SqliteError> {
    let spent = db
        .prepare_cached(
            "SELECT total(cost_usd) FROM turns
             WHERE (caller = ?1 OR charged_to = ?1) AND created_at >= ?2",
        )?
        .query_row(params![caller, nanoseconds(since)], |row| row.get(0))?;
    Ok(spent)
}
