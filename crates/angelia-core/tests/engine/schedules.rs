//! Tests of the times at which schedules are due: triggers, changes of the clock, and restarts at
//! any time.

use std::time::Duration;

use angelia_core::{
    engine::{ScheduleStep, next_after_resume, next_step},
    model::{
        MissedPolicy, Occurrence, OccurrenceStatus, OverlapPolicy, ScheduleId, ScheduleRecord,
        Trigger, TriggerError,
    },
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use proptest::prelude::*;
use uuid::Uuid;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(trigger: Trigger, created_at: Timestamp) -> ScheduleRecord {
    let mut schedule = ScheduleRecord {
        id: ScheduleId::from_uuid(Uuid::nil()),
        trigger,
        prompt: "x".into(),
        profile: None,
        session: None,
        cwd: None,
        caller_cwd: None,
        to: None,
        missed: MissedPolicy::RunOnce,
        overlap: OverlapPolicy::Skip,
        paused: false,
        created_at,
        active_since: created_at,
        next_at: None,
    };
    schedule.next_at = schedule.next_after(created_at);
    schedule
}

fn cron(text: &str, zone_name: &str, created_at: &str) -> ScheduleRecord {
    schedule(Trigger::parse(text, &zone(zone_name)).unwrap(), time(created_at))
}

/// Returns the next occurrences as times of the zone.
fn following(schedule: &ScheduleRecord, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = schedule.created_at;
    while found.len() < count {
        let next = schedule.next_after(after).unwrap();
        assert_eq!(schedule.last_until(next), Some(next));
        assert_eq!(
            schedule.last_until(next - Duration::from_nanos(1)).unwrap_or(after).max(after),
            after
        );
        let zone = schedule.trigger.zone().unwrap().clone();
        found.push(next.to_zoned(zone).strftime("%m-%d %H:%M%:z").to_string());
        after = next;
    }
    found
}

#[test]
fn a_time_that_the_clock_leaves_out_comes_right_after_the_gap() {
    let daily = cron("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z");
    assert_eq!(following(&daily, 2), ["03-29 03:00+02:00", "03-30 02:30+02:00"]);
    let daily = cron("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z");
    assert_eq!(following(&daily, 2), ["03-08 03:00-04:00", "03-09 02:30-04:00"]);
    let often = cron("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:20:00Z");
    let expected = ["03-29 01:30+01:00", "03-29 03:00+02:00", "03-29 03:30+02:00"];
    assert_eq!(following(&often, 3), expected);
}

#[test]
fn a_time_that_the_clock_repeats_comes_once_and_an_interval_goes_on() {
    let daily = cron("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z");
    assert_eq!(following(&daily, 2), ["10-25 02:30+02:00", "10-26 02:30+01:00"]);
    let daily = cron("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z");
    assert_eq!(following(&daily, 2), ["11-01 01:30-04:00", "11-02 01:30-05:00"]);
    let hourly = cron("30 * * * *", "America/New_York", "2026-11-01T05:00:00Z");
    let expected = ["11-01 01:30-04:00", "11-01 01:30-05:00", "11-01 02:30-05:00"];
    assert_eq!(following(&hourly, 3), expected);
}

/// In the hour that comes twice, the second pass of a daily schedule is not another occurrence,
/// also if the daemon starts in it.
#[test]
fn a_restart_in_the_repeated_hour_runs_nothing_twice() {
    let mut daily = cron("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z");
    let ScheduleStep::Run(due) = next_step(&daily, None, time("2026-10-25T00:30:00Z")) else {
        panic!("it is due");
    };
    daily.next_at = due.next_at;
    let done = ended(due.due_at, "2026-10-25T00:31:00Z");
    for now in ["2026-10-25T00:59:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"] {
        let step = next_step(&daily, Some(&done), time(now));
        assert_eq!(step, ScheduleStep::Wait(Some(time("2026-10-26T01:30:00Z"))), "{now}");
    }
}

fn ended(due_at: Timestamp, at: &str) -> Occurrence {
    Occurrence {
        ended_at: Some(time(at)),
        status: OccurrenceStatus::Ended("completed".into()),
        ..Occurrence::new(due_at, due_at)
    }
}

#[test]
fn triggers_are_read_as_they_are_written() {
    let berlin = zone("Europe/Berlin");
    for (text, written) in [
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("  0 9 * * mon-fri ", "0 9 * * 1-5"),
        ("@daily", "0 0 * * *"),
        ("at 2026-07-01 09:30", "at 2026-07-01T07:30:00Z"),
        ("at 2026-07-01T09:30:00+09:00", "at 2026-07-01T00:30:00Z"),
        // Left out by the clock, and repeated by it.
        ("at 2026-03-29 02:30", "at 2026-03-29T01:30:00Z"),
        ("at 2026-10-25 02:30", "at 2026-10-25T00:30:00Z"),
        ("every 1", "every 1s"),
        ("every 90s", "every 90s"),
        ("every 120m", "every 2h"),
        ("every 1h 30m", "every 90m"),
        ("every 7d", "every 7d"),
        ("every 1500ms", "every 1500ms"),
        ("watch /a b/c", "watch /a b/c"),
    ] {
        let trigger = Trigger::parse(text, &berlin).unwrap();
        assert_eq!(trigger.to_string(), written);
        assert_eq!(Trigger::parse(written, &berlin), Ok(trigger), "{written}");
    }
    let wrong = |text: &str| Trigger::parse(text, &berlin).unwrap_err();
    assert_eq!(wrong("0 0 30 2 *"), TriggerError::Never("0 0 30 2 *".to_owned()));
    assert_eq!(wrong("watch x"), TriggerError::Path("x".to_owned()));
    assert_eq!(wrong("at noon"), TriggerError::Time("noon".to_owned()));
    for period in ["0", "999ms", "-5s", "1mo", "x", "200y", "40000d"] {
        let error = wrong(&format!("every {period}"));
        assert_eq!(error, TriggerError::Period(period.to_owned()));
    }
    for text in ["", "0 9 * *", "0 9 * * 1 2026", "0 0 9 * * 1", "61 * * * *", "often"] {
        assert!(matches!(wrong(text), TriggerError::Cron(_)), "{text}");
    }
}

#[test]
fn missed_occurrences_go_by_their_policy() {
    let mut daily = cron("0 9 * * *", "UTC", "2026-01-01T10:00:00Z");
    let now = time("2026-01-05T12:00:00Z");
    let ScheduleStep::Run(due) = next_step(&daily, None, now) else { panic!("run_once") };
    assert_eq!(due.due_at, time("2026-01-05T09:00:00Z"));
    assert_eq!(due.missed_since, Some(time("2026-01-02T09:00:00Z")));
    assert_eq!(due.next_at, Some(time("2026-01-06T09:00:00Z")));
    daily.missed = MissedPolicy::Skip;
    assert_eq!(next_step(&daily, None, now), ScheduleStep::Miss(due));
    // The newest is on time: only the earlier ones are missed.
    let ScheduleStep::Run(due) = next_step(&daily, None, time("2026-01-05T09:00:59Z")) else {
        panic!("on time");
    };
    assert_eq!(due.missed_since, Some(time("2026-01-02T09:00:00Z")));
    let on_time = next_step(&daily, None, time("2026-01-02T09:00:30Z"));
    assert!(matches!(on_time, ScheduleStep::Run(due) if due.missed_since.is_none()), "{on_time:?}");
}

#[test]
fn an_occurrence_does_not_overlap_with_the_one_before() {
    let mut often = schedule(Trigger::Every(Duration::from_mins(1)), time("2026-01-01T00:00:00Z"));
    let running = Occurrence::new(time("2026-01-01T00:01:00Z"), time("2026-01-01T00:01:00Z"));
    often.next_at = Some(time("2026-01-01T00:02:00Z"));
    let now = time("2026-01-01T00:02:00Z");
    let skip =
        ScheduleStep::Skip { running: running.due_at, next_at: Some(time("2026-01-01T00:03:00Z")) };
    assert_eq!(next_step(&often, Some(&running), now), skip);
    often.overlap = OverlapPolicy::Queue;
    often.missed = MissedPolicy::Skip;
    assert_eq!(next_step(&often, Some(&running), now), ScheduleStep::Hold);
    // It was held back and not missed, however late it is: one runs for all of them.
    let late = time("2026-01-01T00:10:30Z");
    let done = ended(running.due_at, "2026-01-01T00:10:30Z");
    let ScheduleStep::Run(due) = next_step(&often, Some(&done), late) else { panic!("it waited") };
    assert_eq!(due.due_at, time("2026-01-01T00:10:00Z"));
    let day = schedule(Trigger::At(now), time("2026-01-01T00:00:00Z"));
    let day = ScheduleRecord { overlap: OverlapPolicy::Queue, missed: MissedPolicy::Skip, ..day };
    let ScheduleStep::Run(due) = next_step(&day, Some(&done), late) else { panic!("it waited") };
    assert_eq!((due.due_at, due.next_at), (now, None));
}

#[test]
fn a_paused_schedule_waits_and_leaves_out_what_came_meanwhile() {
    let mut often = schedule(Trigger::Every(Duration::from_secs(10)), time("2026-01-01T00:00:00Z"));
    often.paused = true;
    let now = time("2026-01-01T01:00:05Z");
    assert_eq!(next_step(&often, None, now), ScheduleStep::Wait(None));
    assert_eq!(next_after_resume(&often, None, now), Some(time("2026-01-01T01:00:10Z")));
    // The clock was set back behind the last occurrence.
    let future = ended(time("2026-01-01T02:00:00Z"), "2026-01-01T02:00:01Z");
    let next = next_after_resume(&often, Some(&future), now);
    assert_eq!(next, Some(time("2026-01-01T02:00:10Z")));
}

fn any_trigger() -> impl Strategy<Value = Trigger> {
    let zones = prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
    ]);
    let crons = prop::sample::select(vec![
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0 9 * * 1-5",
        "15,45 1-3 * * *",
        "0 0 1 * *",
        "30 */2 * * 0",
        "59 1 29 2 *",
    ]);
    prop_oneof![
        (crons, zones).prop_map(|(cron, name)| Trigger::parse(cron, &zone(name)).unwrap()),
        (1000_u64..100_000_000).prop_map(|ms| Trigger::Every(Duration::from_millis(ms))),
    ]
}

/// An event in the life of a daemon, at some time after the event before.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It looks at its schedules.
    Looks,
    /// The turn that runs ends.
    TurnEnds,
    /// It is killed and starts again: what runs is closed, and nothing but the record is left.
    Restarts,
}

fn any_life() -> impl Strategy<Value = Vec<(Fate, i64)>> {
    let fate = prop::sample::select(vec![Fate::Looks, Fate::Looks, Fate::TurnEnds, Fate::Restarts]);
    // Seconds to days: around all changes of the clock, also backwards.
    let pause = prop_oneof![0_i64..5, 0_i64..4000, 0_i64..400_000, -4000_i64..0];
    prop::collection::vec((fate, pause), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Occurrences strictly increase, whatever happens, so none runs twice; and with `run_once`
    /// every time that has come is covered by an occurrence that ran, or was skipped.
    #[test]
    fn no_life_of_a_daemon_repeats_or_loses_an_occurrence(
        trigger in any_trigger(),
        start in 1_770_000_000_i64..1_800_000_000,
        queue in any::<bool>(),
        life in any_life(),
    ) {
        let begin = Timestamp::from_second(start).unwrap();
        let mut record = schedule(trigger, begin);
        if queue {
            record.overlap = OverlapPolicy::Queue;
        }
        let mut last: Option<Occurrence> = None;
        let (mut now, mut newest) = (begin, begin);
        for (fate, seconds) in life {
            now = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
            match fate {
                Fate::TurnEnds | Fate::Restarts => {
                    if let Some(open) = last.as_mut().filter(|last| last.is_open()) {
                        open.ended_at = Some(now);
                    }
                }
                Fate::Looks => {}
            }
            let (covered, next_at) = match next_step(&record, last.as_ref(), now) {
                ScheduleStep::Wait(next) => {
                    prop_assert!(next.is_none_or(|next| next > now));
                    continue;
                }
                ScheduleStep::Hold => {
                    prop_assert!(queue && last.as_ref().is_some_and(Occurrence::is_open));
                    continue;
                }
                ScheduleStep::Miss(_) => panic!("run_once"),
                ScheduleStep::Skip { running, next_at } => {
                    prop_assert!(last.as_ref().is_some_and(|it| it.is_open() && it.due_at == running));
                    (record.last_until(now).unwrap(), next_at)
                }
                ScheduleStep::Run(due) => {
                    prop_assert!(due.due_at > newest, "{} after {newest}", due.due_at);
                    prop_assert!(due.due_at <= now);
                    let first = record.next_at.unwrap();
                    // A time that passed unnoticed is told.
                    prop_assert_eq!(due.missed_since.is_some_and(|since| since == first),
                        first < due.due_at || due.missed_since.is_some());
                    newest = due.due_at;
                    last = Some(Occurrence::new(due.due_at, now));
                    (due.due_at, due.next_at)
                }
            };
            // Nothing lies between what is covered and what comes next.
            prop_assert_eq!(next_at, record.next_after(covered));
            prop_assert!(next_at.is_none_or(|next| next > now && next > covered));
            record.next_at = next_at;
        }
    }
}
