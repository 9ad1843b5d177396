//! Rules that people granted for good.

use angelia_core::model::{GrantRule, StoredRule};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{
    columns::{nanoseconds, timestamp, uuid},
    error::SqliteError,
    read::{column_text, query_all},
    writer::Db,
};
use crate::store::unreadable::Unreadable;

const SELECT: &str = "SELECT id, profile, cwd, tool, subject, pattern, created_at, granted_by
    FROM rules ORDER BY created_at, id";

pub(super) fn add_rule(db: &Db, rule: &StoredRule) -> Result<(), SqliteError> {
    let (tool, subject, pattern) = match &rule.rule {
        GrantRule::Exact { tool, subject } => (Some(&**tool), Some(&**subject), None),
        GrantRule::Pattern(pattern) => (None, None, Some(pattern.to_string())),
    };
    // A second grant of the same rule changes nothing.
    db.connection
        .prepare_cached(
            "INSERT INTO rules (id, profile, cwd, tool, subject, pattern, created_at, granted_by)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (
                SELECT 1 FROM rules WHERE profile = ?2 AND cwd = ?3
                    AND tool IS ?4 AND subject IS ?5 AND pattern IS ?6)",
        )?
        .execute(params![
            rule.id.as_bytes(),
            rule.profile,
            rule.cwd.to_string_lossy(),
            tool,
            subject,
            pattern,
            nanoseconds(rule.created_at),
            rule.by,
        ])?;
    Ok(())
}

/// Returns whether the rule existed.
pub(super) fn remove_rule(db: &Db, id: Uuid) -> Result<bool, SqliteError> {
    let mut delete = db.connection.prepare_cached("DELETE FROM rules WHERE id = ?1")?;
    Ok(delete.execute([id.as_bytes()])? > 0)
}

pub(super) fn list_rules(db: &Connection) -> Result<Vec<StoredRule>, SqliteError> {
    query_all(db, SELECT, [], stored_rule)
}

fn stored_rule(row: &Row<'_>) -> Result<StoredRule, SqliteError> {
    let rule = match row.get::<_, Option<String>>(5)? {
        Some(pattern) => GrantRule::Pattern(
            pattern
                .parse()
                .map_err(|error| Unreadable(format!("a stored rule is no pattern: {error}")))?,
        ),
        None => GrantRule::Exact {
            tool: column_text(row, 3)?.into(),
            subject: column_text(row, 4)?.into(),
        },
    };
    Ok(StoredRule {
        id: uuid(row, 0)?,
        profile: column_text(row, 1)?.into(),
        cwd: column_text(row, 2)?.into(),
        rule,
        created_at: timestamp(row.get(6)?),
        by: column_text(row, 7)?.into(),
    })
}
