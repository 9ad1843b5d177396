//! Schedules as text for people. Pure: the time and the zone are arguments.

use std::fmt::Write as _;

use angelia_frontends::http::resources::{OccurrenceResource, ScheduleResource};
use jiff::{Timestamp, tz::TimeZone};

use crate::cli::{
    local_time::relative,
    print::show_controls,
    table::{Column, Table},
    view::format_until,
};

pub(super) fn short(schedule: &ScheduleResource) -> String {
    schedule.short_id.clone().unwrap_or_else(|| schedule.id.to_string())
}

fn is_watch(schedule: &ScheduleResource) -> bool {
    schedule.spec.starts_with("watch ")
}

/// Describes the next run of a schedule.
pub(super) fn next(schedule: &ScheduleResource, now: Timestamp, zone: &TimeZone) -> String {
    match schedule.next_at {
        _ if schedule.paused => "paused".to_owned(),
        Some(at) => {
            let local = at.to_zoned(zone.clone());
            let is_near = at.duration_since(now).as_hours() < 24 * 300;
            let format = if is_near { "%a %-d %b %H:%M" } else { "%Y-%m-%d %H:%M" };
            format!("next {}, {}", local.strftime(format), format_until(at, now))
        }
        None if is_watch(schedule) => "waits for changes".to_owned(),
        None => "done".to_owned(),
    }
}

pub(super) fn table(schedules: &[ScheduleResource], now: Timestamp, zone: &TimeZone) -> Table<6> {
    let mut table = Table::new([
        Column { header: "ID", min_width: None, rank: 0 },
        Column { header: "WHEN", min_width: Some(12), rank: 2 },
        Column { header: "NEXT", min_width: None, rank: 3 },
        Column { header: "LAST", min_width: Some(9), rank: 4 },
        Column { header: "TO", min_width: Some(6), rank: 5 },
        Column { header: "PROMPT", min_width: Some(12), rank: 1 },
    ]);
    for schedule in schedules {
        let next = match schedule.next_at {
            _ if schedule.paused => "paused".to_owned(),
            Some(at) => format_until(at, now),
            None if is_watch(schedule) => "on change".to_owned(),
            None => "done".to_owned(),
        };
        let last = schedule.last.as_ref();
        table.push([
            short(schedule),
            when(schedule),
            next,
            last.map(|last| format!("{} {}", last.status, relative(last.at, now, zone)))
                .unwrap_or_default(),
            schedule.to.clone().unwrap_or_default(),
            schedule.prompt.lines().next().unwrap_or_default().to_owned(),
        ]);
    }
    table
}

fn when(schedule: &ScheduleResource) -> String {
    match &schedule.tz {
        Some(zone) => format!("{} {zone}", schedule.spec),
        None => schedule.spec.clone(),
    }
}

/// Describes one schedule and its last results.
pub(super) fn page(schedule: &ScheduleResource, now: Timestamp, zone: &TimeZone) -> String {
    let session = schedule.session.as_deref().unwrap_or("a new one each time");
    let cwd = schedule.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let rows = [
        ("id", Some(schedule.id.to_string())),
        ("when", Some(when(schedule))),
        ("next", Some(next(schedule, now, zone).trim_start_matches("next ").to_owned())),
        ("prompt", Some(schedule.prompt.replace('\n', "\n          "))),
        ("profile", schedule.profile.clone()),
        ("session", Some(session.to_owned())),
        ("cwd", cwd),
        ("to", schedule.to.clone()),
        ("policy", Some(format!("missed: {}, overlap: {}", schedule.missed, schedule.overlap))),
    ];
    let mut page = String::new();
    for (label, value) in rows {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _infallible = writeln!(page, "{label:<10}{}", show_controls(&value));
        }
    }
    if schedule.results.is_empty() {
        page.push_str("it has not run yet\n");
        return page;
    }
    page.push('\n');
    for line in results(&schedule.results, now, zone).lines(None) {
        page.push_str(&line);
        page.push('\n');
    }
    page
}

fn results(results: &[OccurrenceResource], now: Timestamp, zone: &TimeZone) -> Table<4> {
    let column = |header| Column { header, min_width: None, rank: 0 };
    let mut table = Table::new(["DUE", "STATUS", "TURN", "NOTE"].map(column));
    for result in results {
        let notes = [
            result.missed_since.map(|since| {
                let local = since.to_zoned(zone.clone());
                format!("for all since {}", local.strftime("%Y-%m-%d %H:%M:%S"))
            }),
            (result.skipped > 0).then(|| format!("{} skipped meanwhile", result.skipped)),
            result.note.clone(),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        table.push([
            relative(result.at, now, zone),
            result.status.clone(),
            result.turn_id.map(|turn| turn.to_string()).unwrap_or_default(),
            notes.join("; "),
        ]);
    }
    table
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
