//! Rules that people granted for good.

use angelia_core::{
    model::{GrantRule, StoredRule},
    ports::StoreError,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    alone::Transaction,
    columns::{nanoseconds, optional_text, text, time, uuid},
    error::PgError,
    readers::Readers,
};
use crate::store::unreadable::Unreadable;

pub(super) async fn add(db: &Transaction<'_>, rule: &StoredRule) -> Result<(), PgError> {
    let (tool, subject, pattern) = match &rule.rule {
        GrantRule::Exact { tool, subject } => {
            (Some(tool.as_bytes()), Some(subject.as_bytes()), None)
        }
        GrantRule::Pattern(pattern) => (None, None, Some(pattern.to_string().into_bytes())),
    };
    // A second grant of the same rule changes nothing, also one of another process at the same time.
    db.execute("LOCK TABLE rules IN SHARE ROW EXCLUSIVE MODE", &[]).await?;
    db.execute(
        "INSERT INTO rules (id, profile, cwd, tool, subject, pattern, created_at, granted_by)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE NOT EXISTS (
            SELECT 1 FROM rules WHERE profile = $2 AND cwd = $3
                AND tool IS NOT DISTINCT FROM $4 AND subject IS NOT DISTINCT FROM $5
                AND pattern IS NOT DISTINCT FROM $6)",
        &[
            &rule.id,
            &rule.profile.as_bytes(),
            &rule.cwd.to_string_lossy().as_bytes(),
            &tool,
            &subject,
            &pattern,
            &nanoseconds(rule.created_at),
            &rule.by.as_bytes(),
        ],
    )
    .await
    .map(drop)
}

/// Returns whether the rule existed.
pub(super) async fn remove(db: &Transaction<'_>, id: Uuid) -> Result<bool, PgError> {
    Ok(db.execute("DELETE FROM rules WHERE id = $1", &[&id]).await? > 0)
}

pub(super) async fn list(db: &Readers) -> Result<Vec<StoredRule>, StoreError> {
    let sql = "SELECT id, profile, cwd, tool, subject, pattern, created_at, granted_by
        FROM rules ORDER BY created_at, id";
    db.read(sql, &[], stored_rule).await
}

fn stored_rule(row: &Row) -> Result<StoredRule, PgError> {
    let rule = match optional_text(row, 5)? {
        Some(pattern) => GrantRule::Pattern(
            pattern
                .parse()
                .map_err(|error| Unreadable(format!("a stored rule is no pattern: {error}")))?,
        ),
        None => GrantRule::Exact { tool: text(row, 3)?.into(), subject: text(row, 4)?.into() },
    };
    Ok(StoredRule {
        id: uuid(row, 0)?,
        profile: text(row, 1)?.into(),
        cwd: text(row, 2)?.into(),
        rule,
        created_at: time(row, 6)?,
        by: text(row, 7)?.into(),
    })
}
