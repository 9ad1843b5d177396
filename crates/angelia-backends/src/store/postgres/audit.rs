//! The audit. A trigger in the schema refuses to change or delete its rows.

use angelia_core::{
    model::{AuditEntry, AuditRecord},
    ports::{AuditQuery, StoreError},
};

use super::{
    columns::{bytes, nanoseconds, number, text, time, to_i64, word},
    groups::{Calls, values},
    readers::Readers,
};
use crate::store::unreadable::Unreadable;

pub(super) fn insert(entry: &AuditEntry) -> Calls {
    let mut calls = Calls::default();
    calls.add(
        "INSERT INTO audit (at, actor, action, subject) VALUES ($1, $2, $3, $4)",
        values![
            nanoseconds(entry.at),
            bytes(entry.actor.to_string()),
            entry.action.as_str(),
            bytes(&entry.subject),
        ],
    );
    calls
}

/// Returns the newest rows first.
pub(super) async fn list(db: &Readers, query: AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
    let sql = "SELECT number, at, actor, action, subject FROM audit
        WHERE number < $1 AND at >= $2 ORDER BY number DESC LIMIT $3";
    let before = query.before.map_or(i64::MAX, to_i64);
    let since = query.since.map_or(i64::MIN, nanoseconds);
    db.read(sql, &[&before, &since, &to_i64(query.limit)], |row| {
        let unreadable = |what: &str| Unreadable(format!("the {what} of an audit row"));
        Ok(AuditRecord {
            number: number(row, 0)?,
            entry: AuditEntry {
                at: time(row, 1)?,
                actor: text(row, 2)?.parse().map_err(|_| unreadable("actor"))?,
                action: word(row, 3)?.parse().map_err(|_| unreadable("action"))?,
                subject: text(row, 4)?.into(),
            },
        })
    })
    .await
}
