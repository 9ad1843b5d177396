//! Records about callers of the model APIs: hashes of their conversations, and their costs.

use angelia_core::ports::{HistoryNote, StoreError};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::{
    read,
    trouble::Trouble,
    words::{count, nanoseconds, number, session_id, time, turn_id},
    writer::Db,
};

pub(super) fn note_history(db: &Db, note: &HistoryNote) -> Result<(), Trouble> {
    let turn = note.turn.as_uuid();
    let known = db
        .connection
        .prepare_cached("SELECT 1 FROM turns WHERE id = ?1 AND session_id = ?2")?
        .exists(params![turn.as_bytes(), note.session.as_uuid().as_bytes()])?;
    if !known {
        return Err(StoreError::NotFound("turn").into());
    }
    db.connection
        .prepare_cached(
            "INSERT INTO histories (hash, turn_id, seq, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![note.hash, turn.as_bytes(), number(note.seq), nanoseconds(note.at)])?;
    Ok(())
}

pub(super) fn with_history(
    db: &Connection,
    hash: [u8; 32],
    limit: usize,
) -> Result<Vec<HistoryNote>, Trouble> {
    let sql = "SELECT t.session_id, h.turn_id, h.seq, h.at
        FROM histories h JOIN turns t ON t.id = h.turn_id
        WHERE h.hash = ?1 ORDER BY h.turn_id DESC, h.seq DESC LIMIT ?2";
    read::list(db, sql, params![hash, number(limit)], |row| {
        Ok(HistoryNote {
            hash,
            session: session_id(row, 0)?,
            turn: turn_id(row, 1)?,
            seq: count(row.get(2)?),
            at: time(row.get(3)?),
        })
    })
}

pub(super) fn spent(db: &Connection, caller: &str, since: Timestamp) -> Result<f64, Trouble> {
    let spent = db
        .prepare_cached("SELECT total(cost_usd) FROM turns WHERE caller = ?1 AND created_at >= ?2")?
        .query_row(params![caller, nanoseconds(since)], |row| row.get(0))?;
    Ok(spent)
}
