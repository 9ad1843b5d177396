//! The text of blocks that are not complete yet, in pieces, for the case that this process dies.

use angelia_core::{
    model::{TextChannel, TurnId},
    ports::{Lease, OpenText},
};
use rusqlite::{Connection, params};

use super::{
    columns::{parse_variant, to_i64, to_u64},
    error::SqliteError,
    read::{column_text, query_all},
    write::check_open_turn,
    writer::Db,
};

pub(super) fn insert(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    pieces: &[OpenText],
) -> Result<(), SqliteError> {
    check_open_turn(db, lease, turn)?;
    let mut insert = db.connection.prepare_cached(
        "INSERT INTO open_text (turn_id, block, seq, channel, text) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
    )?;
    for piece in pieces {
        insert.execute(params![
            turn.as_uuid().as_bytes(),
            piece.block,
            to_i64(piece.seq),
            piece.channel.as_str(),
            piece.text,
        ])?;
    }
    Ok(())
}

pub(super) fn read(db: &Connection, turn: TurnId) -> Result<Vec<OpenText>, SqliteError> {
    let sql = "SELECT block, seq, channel, text FROM open_text WHERE turn_id = ?1
        ORDER BY block, seq";
    query_all(db, sql, [turn.as_uuid().as_bytes()], |row| {
        let channels = [TextChannel::Answer, TextChannel::Reasoning];
        Ok(OpenText {
            block: row.get(0)?,
            seq: to_u64(row.get(1)?),
            channel: parse_variant(&channels, TextChannel::as_str, column_text(row, 2)?)?,
            text: row.get(3)?,
        })
    })
}

pub(super) fn delete_turn(db: &Db, turn: TurnId) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached("DELETE FROM open_text WHERE turn_id = ?1")?
        .execute([turn.as_uuid().as_bytes()])?;
    Ok(())
}
