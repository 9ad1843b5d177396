//! `angelia audit`: prints who decided, changed, deleted or exposed something.

use std::{io::Write as _, sync::Arc};

use angelia_core::ports::AuditQuery;
use angelia_frontends::http::resources::AuditResource;
use clap::Args;
use jiff::Timestamp;

use super::{
    error::{CommandError, Exit},
    print,
};
use crate::{assemble::App, config::Period, records::Records};

#[derive(Clone, Debug, Args)]
pub(crate) struct AuditArgs {
    /// Print only rows from this time on: `2026-01-31`, `2026-01-31T12:00:00Z`, or how long ago: `7d`.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// The number of rows to print, newest first; all by default.
    #[arg(short = 'n', long)]
    limit: Option<usize>,

    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(app: &Arc<App>, args: AuditArgs) -> Result<Exit, CommandError> {
    let now = Timestamp::now();
    let since = args.since.as_deref().map(|text| parse_since(text, now)).transpose()?;
    let query = AuditQuery { since, ..AuditQuery::newest(args.limit.unwrap_or(i32::MAX as usize)) };
    let rows = Records::open(app).await?.audit(query).await?;
    let mut out = Vec::new();
    for row in &rows {
        if args.json {
            print::json_line(row, &mut out)?;
        } else {
            // Writing into memory cannot fail.
            let _written = writeln!(out, "{}", format_row(row));
        }
    }
    if rows.is_empty() && !args.json {
        print::note("there are no rows");
    }
    print::bytes(&out)
}

fn format_row(row: &AuditResource) -> String {
    let AuditResource { at, who, action, what, .. } = row;
    format!("{at}  {who}  {action}: {what}")
}

/// Parses a time, a day, or an age such as `7d`.
pub(crate) fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp, CommandError> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        let midnight = day.to_zoned(jiff::tz::TimeZone::system());
        return midnight.map(|time| time.timestamp()).map_err(CommandError::internal);
    }
    let period = Period::parse(text).ok();
    let time = period.and_then(|period| now.checked_sub(period.duration()).ok());
    time.ok_or_else(|| {
        CommandError::usage(format!("--since: `{text}` is not a time"))
            .with_hint("write 2026-01-31, 2026-01-31T12:00:00Z, or how long ago: 7d")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_days_and_periods_are_understood() {
        let now: Timestamp = "2026-02-10T00:00:00Z".parse().unwrap();
        let since = |text| parse_since(text, now).unwrap().to_string();
        assert_eq!(since("7d"), "2026-02-03T00:00:00Z");
        assert_eq!(since("2026-01-31T12:00:00+02:00"), "2026-01-31T10:00:00Z");
        assert!(since("2026-01-31").starts_with("2026-01-3"));
        assert!(parse_since("yesterday", now).is_err());
    }
}
