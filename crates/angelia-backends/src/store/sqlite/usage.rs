//! The usage of turns: one row per turn that reached an agent, kept up to date by its events.

use angelia_core::model::{
    AgentStart, EventKind, TurnEvent, Usage, UsageBucket, UsageGroup, UsageQuery, UsageTotals,
};
use rusqlite::{Connection, params};

use super::{
    columns::{nanoseconds, to_i64, to_u64},
    error::SqliteError,
    read::query_all,
    writer::Db,
};

/// Applies an event of a turn to its row.
pub(super) fn record_event(db: &Db, event: &TurnEvent) -> Result<(), SqliteError> {
    match &event.kind {
        EventKind::Started(started) => insert(db, event, started),
        EventKind::Usage(usage) => update(db, event, usage),
        EventKind::Finished(outcome) => update(db, event, &outcome.usage),
        _ => Ok(()),
    }
}

fn insert(db: &Db, event: &TurnEvent, started: &AgentStart) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached(
            "INSERT INTO usage (turn_id, session_id, at, profile, executor, model, caller)
             SELECT id, session_id, created_at, ?2, ?3, ?4, coalesce(charged_to, caller)
                FROM turns WHERE id = ?1
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            event.turn.as_uuid().as_bytes(),
            started.profile,
            started.executor,
            started.model,
        ])?;
    Ok(())
}

/// The greatest count of one turn: a sum over all turns must not overflow.
const MAX_COUNT: u64 = 1 << 50;

fn count(tokens: u64) -> i64 {
    to_i64(tokens.min(MAX_COUNT))
}

/// Replaces the counts: those of an event include all before it.
fn update(db: &Db, event: &TurnEvent, usage: &Usage) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached(
            "UPDATE usage SET input_tokens = ?2, output_tokens = ?3, cache_read_tokens = ?4,
                    cache_write_tokens = ?5, cost_usd = ?6, lane = coalesce(?7, lane)
             WHERE turn_id = ?1",
        )?
        .execute(params![
            event.turn.as_uuid().as_bytes(),
            count(usage.input_tokens),
            count(usage.output_tokens),
            count(usage.cache_read_tokens),
            count(usage.cache_write_tokens),
            usage.cost_usd,
            usage.lane,
        ])?;
    Ok(())
}

/// SQL for the hour or the day of a turn, in the local time zone.
fn period(bucket: UsageBucket) -> &'static str {
    match bucket {
        UsageBucket::Hour => {
            "strftime('%Y-%m-%dT%H:00', at / 1000000000, 'unixepoch', 'localtime')"
        }
        UsageBucket::Day => "strftime('%Y-%m-%dT00:00', at / 1000000000, 'unixepoch', 'localtime')",
    }
}

fn group(group: UsageGroup) -> &'static str {
    match group {
        UsageGroup::Day => "date(at / 1000000000, 'unixepoch', 'localtime')",
        UsageGroup::Profile => "profile",
        UsageGroup::Key => "coalesce(caller, 'owner')",
        UsageGroup::Session => "lower(hex(session_id))",
        UsageGroup::Model => "model",
        UsageGroup::Executor => "executor",
        UsageGroup::Lane => "lane",
    }
}

pub(super) fn totals(db: &Connection, query: UsageQuery) -> Result<Vec<UsageTotals>, SqliteError> {
    let key = query.by.map_or("NULL", group);
    let start = query.bucket.map_or("NULL", period);
    let order = match query.by {
        Some(UsageGroup::Day) => "2, 1",
        _ => "2, sum(cost_usd) DESC, sum(input_tokens + output_tokens) DESC, 1",
    };
    let sql = format!(
        "SELECT {key}, {start}, count(*), sum(input_tokens), sum(output_tokens),
            sum(cache_read_tokens), sum(cache_write_tokens), sum(cost_usd)
         FROM usage WHERE at >= ?1 AND at < ?2 GROUP BY 1, 2 ORDER BY {order}"
    );
    let from = query.from.map_or(i64::MIN, nanoseconds);
    let to = query.to.map_or(i64::MAX, nanoseconds);
    query_all(db, &sql, [from, to], |row| {
        let key: Option<String> = row.get(0)?;
        let key = match query.by {
            // Identifiers are written with hyphens everywhere else.
            Some(UsageGroup::Session) => key
                .map(|hex| match uuid::Uuid::try_parse(&hex) {
                    Ok(id) => id.to_string(),
                    Err(_) => hex,
                })
                .filter(|id| !id.is_empty()),
            _ => key,
        };
        Ok(UsageTotals {
            key: key.map(Into::into),
            start: row.get(1)?,
            turns: to_u64(row.get(2)?),
            usage: Usage {
                input_tokens: to_u64(row.get(3)?),
                output_tokens: to_u64(row.get(4)?),
                cache_read_tokens: to_u64(row.get(5)?),
                cache_write_tokens: to_u64(row.get(6)?),
                cost_usd: row.get(7)?,
                ..Usage::default()
            },
        })
    })
}
