//! The newest report of each quota.

use angelia_core::model::{Quota, QuotaReport};
use rusqlite::{Connection, params};

use super::{
    columns::{nanoseconds, timestamp},
    error::SqliteError,
    read::query_all,
    writer::Db,
};

pub(super) fn save(db: &Db, quota: &Quota) -> Result<(), SqliteError> {
    let report = &quota.report;
    db.connection
        .prepare_cached(
            "INSERT OR REPLACE INTO quotas
                (executor, window, used, exhausted, resets_at, reported_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            quota.executor,
            report.window,
            report.used,
            report.is_exhausted,
            report.resets_at.map(nanoseconds),
            nanoseconds(quota.reported_at),
        ])?;
    Ok(())
}

pub(super) fn list(db: &Connection) -> Result<Vec<Quota>, SqliteError> {
    let sql = "SELECT executor, window, used, exhausted, resets_at, reported_at FROM quotas
        ORDER BY executor, window";
    query_all(db, sql, [], |row| {
        Ok(Quota {
            executor: row.get(0)?,
            report: QuotaReport {
                window: row.get(1)?,
                used: row.get(2)?,
                is_exhausted: row.get(3)?,
                resets_at: row.get::<_, Option<i64>>(4)?.map(timestamp),
            },
            reported_at: timestamp(row.get(5)?),
        })
    })
}
