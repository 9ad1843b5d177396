//! Sums over what turns used. Whole quarters of an hour are read from their sums, so that a report does
//! not depend on the number of turns; the rows of turns count only at the edges of the range, for turns
//! that still run, and for single sessions.

use angelia_core::model::{
    ColdReason, ColdStart, Usage, UsageBucket, UsageGroup, UsageQuery, UsageTotals,
};
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::{
    columns::{nanoseconds, parse_variant, session_id, timestamp, to_i64, to_u64, turn_id},
    error::SqliteError,
    read::{column_text, query_all},
};

/// A quarter of an hour.
const QUARTER_SECONDS: i64 = 900;
const SECOND: i64 = 1_000_000_000;

/// Rows of turns with the columns of [`QUARTERS`].
const TURNS: &str = "SELECT at / 1000000000 AS time, profile, executor, model, caller, lane,
        session_id, 1 AS turns, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
        cost_usd, cold IS NOT NULL AS cold_starts
    FROM usage";

/// Sums of finished turns.
const QUARTERS: &str = "SELECT start AS time, profile, executor, nullif(model, '') AS model,
        nullif(caller, '') AS caller, nullif(lane, '') AS lane, NULL AS session_id, turns,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, cold_starts
    FROM usage_quarters";

pub(super) fn totals(db: &Connection, query: UsageQuery) -> Result<Vec<UsageTotals>, SqliteError> {
    let key = query.by.map_or("NULL", group);
    let start = query.bucket.map_or("NULL", period);
    let order = match query.by {
        Some(UsageGroup::Day) => "2, 1",
        _ => "2, sum(cost_usd) DESC, sum(input_tokens + output_tokens) DESC, 1",
    };
    let sql = format!(
        "SELECT {key}, {start}, sum(turns), sum(input_tokens), sum(output_tokens),
            sum(cache_read_tokens), sum(cache_write_tokens), sum(cost_usd), sum(cold_starts)
         FROM ({}) GROUP BY 1, 2 ORDER BY {order}",
        source(query)
    );
    query_all(db, &sql, [], |row| {
        let key: Option<String> = row.get(0)?;
        let key = match query.by {
            // Identifiers are written with hyphens everywhere else.
            Some(UsageGroup::Session) => key
                .map(|hex| match Uuid::try_parse(&hex) {
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
            cold_starts: to_u64(row.get(8)?),
            usage: counts(row, 3)?,
        })
    })
}

/// Reads the four counts and the cost from these columns on.
fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<Usage> {
    Ok(Usage {
        input_tokens: to_u64(row.get(first)?),
        output_tokens: to_u64(row.get(first + 1)?),
        cache_read_tokens: to_u64(row.get(first + 2)?),
        cache_write_tokens: to_u64(row.get(first + 3)?),
        cost_usd: row.get(first + 4)?,
        ..Usage::default()
    })
}

/// SQL for the rows to add up.
fn source(query: UsageQuery) -> String {
    let from = query.from.map_or(i64::MIN, nanoseconds);
    let to = query.to.map_or(i64::MAX, nanoseconds);
    let whole = format!("{TURNS} WHERE at >= {from} AND at < {to}");
    if query.by == Some(UsageGroup::Session) {
        return whole;
    }
    let quarter = QUARTER_SECONDS * SECOND;
    // The whole quarters of the range.
    let first = from.div_euclid(quarter) + i64::from(from.rem_euclid(quarter) != 0);
    let end = to.div_euclid(quarter);
    if first >= end {
        return whole;
    }
    let (first, end) = (first * QUARTER_SECONDS, end * QUARTER_SECONDS);
    let mut parts = vec![
        format!("{QUARTERS} WHERE start >= {first} AND start < {end}"),
        format!("{TURNS} WHERE is_final = 0 AND at >= {from} AND at < {to}"),
    ];
    if query.from.is_some() {
        let edge = first.saturating_mul(SECOND);
        parts.push(format!("{TURNS} WHERE is_final = 1 AND at >= {from} AND at < {edge}"));
    }
    if query.to.is_some() {
        let edge = end.saturating_mul(SECOND);
        parts.push(format!("{TURNS} WHERE is_final = 1 AND at >= {edge} AND at < {to}"));
    }
    parts.join(" UNION ALL ")
}

/// SQL for the hour or the day of a turn, in the local time zone.
fn period(bucket: UsageBucket) -> &'static str {
    match bucket {
        UsageBucket::Hour => "strftime('%Y-%m-%dT%H:00', time, 'unixepoch', 'localtime')",
        UsageBucket::Day => "strftime('%Y-%m-%dT00:00', time, 'unixepoch', 'localtime')",
    }
}

fn group(group: UsageGroup) -> &'static str {
    match group {
        UsageGroup::Day => "date(time, 'unixepoch', 'localtime')",
        UsageGroup::Profile => "profile",
        UsageGroup::Key => "coalesce(caller, 'owner')",
        UsageGroup::Session => "lower(hex(session_id))",
        UsageGroup::Model => "model",
        UsageGroup::Executor => "executor",
        UsageGroup::Lane => "lane",
    }
}

/// Returns the turns that found nothing in the cache, newest first.
pub(super) fn cold_starts(
    db: &Connection,
    query: UsageQuery,
    limit: usize,
) -> Result<Vec<ColdStart>, SqliteError> {
    let sql = "SELECT u.turn_id, u.session_id, s.title, u.at, u.profile, u.model, u.cold,
            u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.cost_usd,
            s.first_words
        FROM usage u LEFT JOIN sessions s ON s.id = u.session_id
        WHERE u.cold IS NOT NULL AND u.at >= ?1 AND u.at < ?2 ORDER BY u.at DESC LIMIT ?3";
    let from = query.from.map_or(i64::MIN, nanoseconds);
    let to = query.to.map_or(i64::MAX, nanoseconds);
    query_all(db, sql, [from, to, to_i64(limit)], |row| {
        let session = match row.get_ref(1)? {
            rusqlite::types::ValueRef::Null => None,
            _ => Some(session_id(row, 1)?),
        };
        let title: Option<_> = row.get(2)?;
        Ok(ColdStart {
            turn: turn_id(row, 0)?,
            session,
            title: title.or(row.get(12)?),
            at: timestamp(row.get(3)?),
            profile: row.get(4)?,
            model: row.get(5)?,
            reason: parse_variant(&ColdReason::ALL, ColdReason::as_str, column_text(row, 6)?)?,
            usage: counts(row, 7)?,
        })
    })
}
