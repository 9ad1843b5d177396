//! Records about callers of the model APIs: hashes of their conversations, and their costs.

use angelia_core::ports::{HistoryEntry, StoreError};
use jiff::Timestamp;

use super::{
    columns::{nanoseconds, number, session_id, time, to_i64, turn_id},
    readers::Readers,
};

pub(super) async fn find_by_history(
    db: &Readers,
    hash: [u8; 32],
    limit: usize,
) -> Result<Vec<HistoryEntry>, StoreError> {
    let sql = "SELECT t.session_id, h.turn_id, h.seq, h.at
        FROM histories h JOIN turns t ON t.id = h.turn_id
        WHERE h.hash = $1 ORDER BY t.number DESC, h.seq DESC LIMIT $2";
    db.read(sql, &[&&hash[..], &to_i64(limit)], |row| {
        Ok(HistoryEntry {
            hash,
            session: session_id(row, 0)?,
            turn: turn_id(row, 1)?,
            seq: number(row, 2)?,
            at: time(row, 3)?,
        })
    })
    .await
}

pub(super) async fn total_cost(
    db: &Readers,
    caller: &str,
    since: Timestamp,
) -> Result<f64, StoreError> {
    let sql = "SELECT coalesce(sum(cost_usd), 0) FROM turns
        WHERE (sha256(caller) = sha256($1) OR sha256(charged_to) = sha256($1))
            AND created_at >= $2";
    let parameters: super::connection::Parameters<'_> = &[&caller.as_bytes(), &nanoseconds(since)];
    let spent = db.read(sql, parameters, |row| Ok(row.try_get(0)?)).await?;
    Ok(spent.first().copied().unwrap_or_default())
}
