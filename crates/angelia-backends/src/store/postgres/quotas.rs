//! The newest report of each quota.

use angelia_core::{
    model::{Quota, QuotaReport},
    ports::StoreError,
};

use super::{
    alone::Transaction,
    columns::{nanoseconds, optional_time, text, time},
    error::PgError,
    readers::Readers,
};

pub(super) async fn save(db: &Transaction<'_>, quota: &Quota) -> Result<(), PgError> {
    let report = &quota.report;
    db.execute(
        "INSERT INTO quotas (executor, \"window\", used, exhausted, resets_at, reported_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (executor, \"window\") DO UPDATE SET used = excluded.used,
            exhausted = excluded.exhausted, resets_at = excluded.resets_at,
            reported_at = excluded.reported_at",
        &[
            &quota.executor.as_bytes(),
            &report.window.as_bytes(),
            &report.used,
            &report.is_exhausted,
            &report.resets_at.map(nanoseconds),
            &nanoseconds(quota.reported_at),
        ],
    )
    .await
    .map(drop)
}

pub(super) async fn list(db: &Readers) -> Result<Vec<Quota>, StoreError> {
    let sql = "SELECT executor, \"window\", used, exhausted, resets_at, reported_at FROM quotas
        ORDER BY executor, \"window\"";
    db.read(sql, &[], |row| {
        Ok(Quota {
            executor: text(row, 0)?.into(),
            report: QuotaReport {
                window: text(row, 1)?.into(),
                used: row.try_get(2)?,
                is_exhausted: row.try_get(3)?,
                resets_at: optional_time(row, 4)?,
            },
            reported_at: time(row, 5)?,
        })
    })
    .await
}
