//! `angelia usage`: tokens, cache share, cost, and what is left of the quotas.

use std::fmt::Write as _;

use angelia_core::model::{Usage, UsageGroup, UsageQuery};
use angelia_frontends::http::{
    key_name,
    resources::{QuotaResource, UsageResource},
};
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{
    audit::parse_since,
    error::{CommandError, Exit},
    print,
    status::format_quota,
    view::{Style, View, break_parts, format_cost, format_tokens, short_id},
};
use crate::{assemble::App, records::Records};

/// The range if none is given.
const DEFAULT_RANGE: SignedDuration = SignedDuration::from_hours(30 * 24);

#[derive(Clone, Debug, Args)]
pub(crate) struct UsageArgs {
    /// Print a row for each of these.
    #[arg(long, value_enum, default_value = "day")]
    by: UsageGroupArg,

    /// Count only turns from this time on: `2026-01-31`, `2026-01-31T12:00:00Z`, or how long ago:
    /// `7d`; 30 days by default.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Print JSON: the rows, their total, and the quotas.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageGroupArg {
    Day,
    Profile,
    Key,
    Session,
    Model,
    Executor,
    Lane,
}

impl UsageGroupArg {
    const fn group(self) -> UsageGroup {
        match self {
            Self::Day => UsageGroup::Day,
            Self::Profile => UsageGroup::Profile,
            Self::Key => UsageGroup::Key,
            Self::Session => UsageGroup::Session,
            Self::Model => UsageGroup::Model,
            Self::Executor => UsageGroup::Executor,
            Self::Lane => UsageGroup::Lane,
        }
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct UsageReport {
    by: &'static str,
    since: Timestamp,
    data: Vec<UsageResource>,
    total: UsageResource,
    quotas: Vec<QuotaResource>,
}

pub(crate) async fn run(app: &App, args: UsageArgs) -> Result<Exit, CommandError> {
    let now = Timestamp::now();
    let since = match &args.since {
        Some(text) => parse_since(text, now)?,
        None => now.checked_sub(DEFAULT_RANGE).unwrap_or(Timestamp::UNIX_EPOCH),
    };
    let records = Records::open(app).await?;
    let by = args.by.group();
    let query = UsageQuery { from: Some(since), by: Some(by), ..UsageQuery::default() };
    let data = records.usage(query).await?;
    let total = records.usage(UsageQuery { by: None, ..query }).await?;
    let report = UsageReport {
        by: by.as_str(),
        since,
        data,
        total: total.into_iter().next().unwrap_or_default(),
        quotas: records.quotas().await?,
    };
    if args.json {
        let mut out = Vec::new();
        print::json_line(&report, &mut out)?;
        return print::bytes(&out);
    }
    print::styled(&render(&report, by, &View::of_stdout(&app.environment), now))
}

/// The widths of the columns after the first.
const COLUMNS: [(&str, usize); 5] =
    [("TURNS", 6), ("IN", 7), ("CACHED", 6), ("OUT", 7), ("COST", 9)];
/// For narrow terminals, on which fewer columns fit.
const NARROW_COLUMNS: [(&str, usize); 3] = [("IN", 7), ("OUT", 7), ("COST", 9)];
const MIN_BAR: usize = 8;
const MAX_BAR: usize = 40;

fn render(report: &UsageReport, by: UsageGroup, view: &View, now: Timestamp) -> String {
    if report.data.is_empty() {
        let mut out = "nothing was used in this time\n".to_owned();
        push_quotas(&mut out, &report.quotas, view, now);
        return out;
    }
    let columns: &[(&str, usize)] = if view.width < 60 { &NARROW_COLUMNS } else { &COLUMNS };
    let key = |row: &UsageResource| match (&row.key, by) {
        (Some(id), UsageGroup::Session) if view.is_terminal => short_id(id).to_owned(),
        (Some(account), UsageGroup::Key) if view.is_terminal => {
            key_label(account, &report.data).to_owned()
        }
        (Some(key), _) => key.clone(),
        (None, UsageGroup::Session) => "(deleted)".to_owned(),
        (None, _) => "-".to_owned(),
    };
    let right: usize = columns.iter().map(|(_, width)| width + 2).sum();
    let widest = report.data.iter().map(|row| super::text_width::columns(&key(row))).max();
    let first = widest.unwrap_or(0).max(by.as_str().len()).max("total".len());
    let first = first.min(view.width.saturating_sub(right).max(5));
    let mut out = view.cell(Style::Bold, &by.as_str().to_uppercase(), first);
    for (name, width) in columns {
        out.push_str("  ");
        out.push_str(&view.paint(Style::Bold, &format!("{name:>width$}")));
    }
    out.push('\n');
    let left = view.width.saturating_sub(first + right + 2);
    let bar =
        (view.is_terminal && by == UsageGroup::Day && left >= MIN_BAR).then(|| left.min(MAX_BAR));
    let most = report.data.iter().map(bar_size).fold(0.0, f64::max);
    for row in &report.data {
        out.push_str(&view.cell(Style::Plain, &key(row), first));
        push_cells(&mut out, row, columns);
        if let Some(width) = bar {
            out.push_str("  ");
            out.push_str(&view.paint(Style::Good, &draw_bar(bar_size(row), most, width)));
        }
        trim_line(&mut out);
    }
    if report.data.len() > 1 {
        out.push_str(&view.cell(Style::Bold, "total", first));
        push_cells(&mut out, &report.total, columns);
        trim_line(&mut out);
    }
    push_quotas(&mut out, &report.quotas, view, now);
    out
}

/// Returns the name of a key, or the whole account if another key had the same name.
fn key_label<'a>(account: &'a str, rows: &[UsageResource]) -> &'a str {
    let Some(name) = key_name(account) else { return account };
    let named = |row: &&UsageResource| row.key.as_deref().and_then(key_name) == Some(name);
    if rows.iter().filter(named).count() == 1 { name } else { account }
}

fn trim_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

fn push_cells(out: &mut String, row: &UsageResource, columns: &[(&str, usize)]) {
    let usage = &row.usage.0;
    for (name, width) in columns {
        let cell = match *name {
            "TURNS" => row.turns.to_string(),
            "IN" => format_tokens(all_input(usage)),
            "CACHED" => cached_percent(usage).map_or("-".to_owned(), |share| format!("{share} %")),
            "OUT" => format_tokens(usage.output_tokens),
            _ => usage.cost_usd.map_or("-".to_owned(), format_cost),
        };
        // Writing to a string cannot fail.
        let _infallible = write!(out, "  {cell:>width$}");
    }
}

fn push_quotas(out: &mut String, quotas: &[QuotaResource], view: &View, now: Timestamp) {
    if quotas.is_empty() {
        return;
    }
    out.push('\n');
    for quota in quotas {
        let (style, text) = format_quota(quota, now);
        for line in break_parts(&text, view.width) {
            out.push_str(&view.rest(style, &line, 0));
            out.push('\n');
        }
    }
}

/// Returns the size of a bar: the cost, or the tokens if no cost is known.
#[expect(clippy::cast_precision_loss, reason = "a bar is not exact")]
fn bar_size(row: &UsageResource) -> f64 {
    let usage = &row.usage.0;
    usage.cost_usd.unwrap_or((all_input(usage) + usage.output_tokens) as f64 / 1e9)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a bar has a few dozen cells"
)]
fn draw_bar(size: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if most <= 0.0 {
        return String::new();
    }
    let cells = (size / most * width as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(cells / 8), EIGHTHS[cells % 8])
}

/// Returns all tokens that the model read, from the cache or not.
fn all_input(usage: &Usage) -> u64 {
    usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
}

fn cached_percent(usage: &Usage) -> Option<u64> {
    (all_input(usage) > 0).then(|| usage.cache_read_tokens * 100 / all_input(usage))
}

/// Formats usage in a line: `3.1k in (96 % cached) · 25 out · $0.0009`.
pub(crate) fn format_used(usage: &Usage) -> String {
    let cached = cached_percent(usage).filter(|share| *share > 0);
    let cached = cached.map(|share| format!(" ({share} % cached)")).unwrap_or_default();
    let mut parts = vec![format!("{} in{cached}", format_tokens(all_input(usage)))];
    parts.push(format!("{} out", format_tokens(usage.output_tokens)));
    parts.extend(usage.cost_usd.map(format_cost));
    parts.join(" · ")
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
