//! Tests of the texts for people.

use super::*;

fn sample() -> ScheduleResource {
    let json = serde_json::json!({
        "id": "01923456-789a-7bcd-8ef0-123456789abc",
        "short_id": "01923456",
        "spec": "0 9 * * 1-5",
        "tz": "Europe/Berlin",
        "prompt": "Review what was merged yesterday.\nBe brief.",
        "profile": "careful",
        "session": null,
        "cwd": "/home/me/project",
        "to": "webhook:team",
        "missed": "run_once",
        "overlap": "skip",
        "next_at": "2026-11-18T08:00:00Z",
        "last": {
            "at": "2026-11-17T08:00:00Z",
            "turn_id": "01923457-0000-7000-8000-000000000000",
            "status": "completed",
            "ended_at": "2026-11-17T08:02:00Z",
            "missed_since": null,
            "skipped": 0,
            "note": null,
        },
        "paused": false,
        "created_at": "2026-11-01T08:00:00Z",
    });
    serde_json::from_value(json).unwrap()
}

fn now() -> Timestamp {
    "2026-11-17T18:30:00Z".parse().unwrap()
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

#[test]
fn schedules_are_listed() {
    let first = sample();
    let paused = ScheduleResource { paused: true, next_at: None, ..sample() };
    let watch = ScheduleResource {
        spec: "watch /home/me/project/docs".to_owned(),
        tz: None,
        next_at: None,
        last: None,
        to: None,
        ..sample()
    };
    let done = ScheduleResource {
        spec: "at 2026-11-17T08:00:00Z".to_owned(),
        tz: None,
        next_at: None,
        ..sample()
    };
    let table = table(&[first, paused, watch, done], now(), &berlin());
    insta::assert_snapshot!(table.lines(None).join("\n"), @r"
    ID        WHEN                         NEXT        LAST                   TO            PROMPT
    01923456  0 9 * * 1-5 Europe/Berlin    in 13h 30m  completed today 09:00  webhook:team  Review what was merged yesterday.
    01923456  0 9 * * 1-5 Europe/Berlin    paused      completed today 09:00  webhook:team  Review what was merged yesterday.
    01923456  watch /home/me/project/docs  on change   -                      -             Review what was merged yesterday.
    01923456  at 2026-11-17T08:00:00Z      done        completed today 09:00  webhook:team  Review what was merged yesterday.
    ");
}

#[test]
fn a_schedule_is_shown_with_its_results() {
    let mut schedule = sample();
    let last = schedule.last.clone().unwrap();
    schedule.results = vec![
        OccurrenceResource {
            missed_since: "2026-11-14T08:00:00Z".parse().ok(),
            skipped: 2,
            note: Some("the result was not delivered: x\u{1b}[2J".to_owned()),
            ..last.clone()
        },
        OccurrenceResource {
            at: "2026-11-13T08:00:00Z".parse().unwrap(),
            turn_id: None,
            status: "missed".to_owned(),
            ..last
        },
    ];
    insta::assert_snapshot!(page(&schedule, now(), &berlin()), @r"
    id        01923456-789a-7bcd-8ef0-123456789abc
    when      0 9 * * 1-5 Europe/Berlin
    next      Wed 18 Nov 09:00, in 13h 30m
    prompt    Review what was merged yesterday.
              Be brief.
    profile   careful
    session   a new one each time
    cwd       /home/me/project
    to        webhook:team
    policy    missed: run_once, overlap: skip

    DUE          STATUS     TURN                                  NOTE
    today 09:00  completed  01923457-0000-7000-8000-000000000000  for all since 2026-11-14 09:00:00; 2 skipped meanwhile; the result was not delivered: x [2J
    Fri 09:00    missed     -                                     -
    ");
    schedule.results.clear();
    assert!(page(&schedule, now(), &berlin()).ends_with("it has not run yet\n"));
    assert_eq!(next(&schedule, now(), &berlin()), "next Wed 18 Nov 09:00, in 13h 30m");
}
