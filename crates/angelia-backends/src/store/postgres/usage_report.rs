//! Sums over what turns used. The database adds up quarters of an hour; hours and days are formed here, in
//! the time zone of this machine.

use std::{cmp::Ordering, collections::BTreeMap};

use angelia_core::{
    model::{
        ColdReason, ColdStart, SessionId, Usage, UsageBucket, UsageGroup, UsageQuery, UsageTotals,
    },
    ports::StoreError,
};
use jiff::{Timestamp, tz::TimeZone};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    columns::{
        nanoseconds, number, optional_text, parse_variant, text, time, to_i64, turn_id, word,
    },
    error::PgError,
    readers::Readers,
};

/// The sum of a group before hours and days are formed.
struct PartialSum {
    key: Option<String>,
    /// Seconds since 1970; `None` if no time is asked for.
    quarter: Option<i64>,
    totals: UsageTotals,
}

/// Adds up the turns, also those that still run.
pub(super) async fn totals(
    db: &Readers,
    query: UsageQuery,
) -> Result<Vec<UsageTotals>, StoreError> {
    let key = query.by.map_or("NULL::bytea", group);
    let has_times = query.bucket.is_some() || query.by == Some(UsageGroup::Day);
    let quarter = if has_times { "at / 900000000000 * 900" } else { "NULL::bigint" };
    let sql = format!(
        "SELECT {key}, {quarter}, count(*), sum(input_tokens)::bigint, sum(output_tokens)::bigint,
            sum(cache_read_tokens)::bigint, sum(cache_write_tokens)::bigint, sum(cost_usd),
            count(cold)
         FROM usage WHERE at >= $1 AND at < $2 GROUP BY 1, 2"
    );
    let from = query.from.map_or(i64::MIN, nanoseconds);
    let to = query.to.map_or(i64::MAX, nanoseconds);
    let sums = db.read(&sql, &[&from, &to], partial_sum).await?;
    Ok(fold(sums, query, &TimeZone::system()))
}

fn partial_sum(row: &Row) -> Result<PartialSum, PgError> {
    Ok(PartialSum {
        key: optional_text(row, 0)?.map(str::to_owned),
        quarter: row.try_get(1)?,
        totals: UsageTotals {
            key: None,
            start: None,
            turns: number(row, 2)?,
            cold_starts: number(row, 8)?,
            usage: counts(row, 3)?,
        },
    })
}

/// Adds up quarters of an hour to the hours and days of a time zone, in the order of reports.
fn fold(sums: Vec<PartialSum>, query: UsageQuery, zone: &TimeZone) -> Vec<UsageTotals> {
    let mut groups: BTreeMap<(Option<String>, Option<String>), UsageTotals> = BTreeMap::new();
    for sum in sums {
        let local = |format: &str| {
            let at = Timestamp::from_second(sum.quarter?).ok()?;
            Some(at.to_zoned(zone.clone()).strftime(format).to_string())
        };
        let key = match query.by {
            Some(UsageGroup::Day) => local("%Y-%m-%d"),
            _ => sum.key.clone(),
        };
        let start = query.bucket.and_then(|bucket| local(period(bucket)));
        let empty = UsageTotals {
            key: key.clone().map(Into::into),
            start: start.clone().map(Into::into),
            turns: 0,
            cold_starts: 0,
            usage: Usage::default(),
        };
        add(groups.entry((start, key)).or_insert(empty), &sum.totals);
    }
    // The map has them by start and key. Of one start, days stay in order; others come by cost and tokens.
    let mut totals: Vec<UsageTotals> = groups.into_values().collect();
    if query.by != Some(UsageGroup::Day) {
        totals.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| by_size(b, a)));
    }
    totals
}

fn by_size(a: &UsageTotals, b: &UsageTotals) -> Ordering {
    let tokens = |row: &UsageTotals| row.usage.input_tokens + row.usage.output_tokens;
    let cost = |row: &UsageTotals| row.usage.cost_usd.unwrap_or(f64::NEG_INFINITY);
    cost(a).total_cmp(&cost(b)).then_with(|| tokens(a).cmp(&tokens(b)))
}

fn add(sum: &mut UsageTotals, more: &UsageTotals) {
    sum.turns += more.turns;
    sum.cold_starts += more.cold_starts;
    sum.usage.input_tokens += more.usage.input_tokens;
    sum.usage.output_tokens += more.usage.output_tokens;
    sum.usage.cache_read_tokens += more.usage.cache_read_tokens;
    sum.usage.cache_write_tokens += more.usage.cache_write_tokens;
    sum.usage.cost_usd = match (sum.usage.cost_usd, more.usage.cost_usd) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
}

/// Reads the four counts and the cost from these columns on.
fn counts(row: &Row, first: usize) -> Result<Usage, PgError> {
    Ok(Usage {
        input_tokens: number(row, first)?,
        output_tokens: number(row, first + 1)?,
        cache_read_tokens: number(row, first + 2)?,
        cache_write_tokens: number(row, first + 3)?,
        cost_usd: row.try_get(first + 4)?,
        ..Usage::default()
    })
}

/// The form of the start of an hour or a day.
fn period(bucket: UsageBucket) -> &'static str {
    match bucket {
        UsageBucket::Hour => "%Y-%m-%dT%H:00",
        UsageBucket::Day => "%Y-%m-%dT00:00",
    }
}

/// SQL for the key of a group.
fn group(group: UsageGroup) -> &'static str {
    match group {
        UsageGroup::Day => "NULL::bytea",
        UsageGroup::Profile => "profile",
        UsageGroup::Key => "coalesce(caller, 'owner'::bytea)",
        UsageGroup::Session => "convert_to(session_id::text, 'UTF8')",
        UsageGroup::Model => "model",
        UsageGroup::Executor => "executor",
        UsageGroup::Lane => "lane",
    }
}

/// Returns the turns that found nothing in the cache, newest first.
pub(super) async fn cold_starts(
    db: &Readers,
    query: UsageQuery,
    limit: usize,
) -> Result<Vec<ColdStart>, StoreError> {
    let sql = "SELECT u.turn_id, u.session_id, coalesce(s.title, s.first_words), u.at, u.profile,
            u.model, u.cold, u.input_tokens, u.output_tokens, u.cache_read_tokens,
            u.cache_write_tokens, u.cost_usd
        FROM usage u LEFT JOIN sessions s ON s.id = u.session_id
        WHERE u.cold IS NOT NULL AND u.at >= $1 AND u.at < $2 ORDER BY u.at DESC LIMIT $3";
    let from = query.from.map_or(i64::MIN, nanoseconds);
    let to = query.to.map_or(i64::MAX, nanoseconds);
    db.read(sql, &[&from, &to, &to_i64(limit)], |row| {
        Ok(ColdStart {
            turn: turn_id(row, 0)?,
            session: row.try_get::<_, Option<Uuid>>(1)?.map(SessionId::from_uuid),
            title: optional_text(row, 2)?.map(Into::into),
            at: time(row, 3)?,
            profile: text(row, 4)?.into(),
            model: optional_text(row, 5)?.map(Into::into),
            reason: parse_variant(&ColdReason::ALL, ColdReason::as_str, word(row, 6)?)?,
            usage: counts(row, 7)?,
        })
    })
    .await
}
