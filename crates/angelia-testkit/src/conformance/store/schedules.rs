//! Schedules: each of their times is claimed only once.

use std::{path::Path, time::Duration};

use angelia_core::{
    model::{
        IdPrefix, MissedPolicy, Occurrence, OccurrenceStatus, OverlapPolicy, ScheduleId,
        ScheduleRecord, Trigger, TurnId,
    },
    ports::{
        MAX_OCCURRENCES, RecordKind, ScheduleAdvance, ScheduleChange, ScheduleStart, StoreError,
    },
};
use jiff::{Timestamp, tz::TimeZone};

use super::{
    StoreFixture,
    samples::{fresh_uuid, timestamp},
};

fn schedule(trigger: Trigger) -> ScheduleRecord {
    ScheduleRecord {
        id: ScheduleId::from_uuid(fresh_uuid()),
        trigger,
        prompt: "look at 'it'\nand say so".into(),
        profile: None,
        session: None,
        cwd: None,
        caller_cwd: None,
        to: None,
        missed: MissedPolicy::RunOnce,
        overlap: OverlapPolicy::Skip,
        paused: false,
        created_at: timestamp(100),
        active_since: timestamp(100),
        next_at: Some(timestamp(160)),
    }
}

fn every_minute() -> ScheduleRecord {
    schedule(Trigger::Every(Duration::from_mins(1)))
}

/// Returns the claim of the occurrence at `from`.
fn claim(schedule: &ScheduleRecord, from: Timestamp, to: Timestamp) -> ScheduleAdvance {
    ScheduleAdvance {
        schedule: schedule.id,
        from: Some(from),
        to: Some(to),
        start: ScheduleStart::Occurrence(Occurrence::new(from, from)),
    }
}

pub async fn a_schedule_comes_back_as_it_was(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let zone = TimeZone::get("America/New_York").unwrap();
    let full = ScheduleRecord {
        profile: Some("careful".into()),
        session: Some("nightly".into()),
        cwd: Some("/project".into()),
        caller_cwd: Some("/home/ü".into()),
        to: Some("webhook:team".into()),
        missed: MissedPolicy::Skip,
        overlap: OverlapPolicy::Queue,
        paused: true,
        next_at: None,
        ..schedule(Trigger::parse("*/5 9-17 * * MON-FRI", &zone).unwrap())
    };
    let all = [
        full,
        every_minute(),
        schedule(Trigger::At(timestamp(500))),
        schedule(Trigger::watch(Path::new("/a folder/x")).unwrap()),
    ];
    for one in &all {
        store.add_schedule(one).await.unwrap();
    }
    let again = store.add_schedule(&all[0]).await;
    assert!(matches!(again, Err(StoreError::Conflict | StoreError::Failed { .. })), "{again:?}");
    let listed = store.schedules().await.unwrap();
    assert!(listed.iter().map(|one| &one.record).eq(&all), "{listed:#?}");
    let one = store.schedule(all[0].id).await.unwrap().unwrap();
    assert_eq!((one.record, one.last), (all[0].clone(), None));
    let prefix = IdPrefix::of(all[0].id.as_uuid(), 32);
    let found = store.find_ids(RecordKind::Schedule, prefix, 9).await.unwrap();
    assert_eq!(found, [all[0].id.as_uuid()]);
    assert!(store.remove_schedule(all[0].id).await.unwrap());
    assert!(!store.remove_schedule(all[0].id).await.unwrap());
    assert!(store.schedule(all[0].id).await.unwrap().is_none());
    store.close().await;
}

pub async fn an_occurrence_is_claimed_once(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let schedule = every_minute();
    store.add_schedule(&schedule).await.unwrap();
    let first = claim(&schedule, timestamp(160), timestamp(220));
    let (one, other) =
        tokio::join!(store.advance_schedule(first.clone()), store.advance_schedule(first.clone()));
    assert!(one.unwrap() != other.unwrap(), "one of two claims succeeds");
    // The claim also fails after the schedule is moved back.
    let back = ScheduleChange::Resume { at: timestamp(150), next_at: Some(timestamp(160)) };
    assert!(store.change_schedule(schedule.id, back).await.unwrap());
    assert!(!store.advance_schedule(first).await.unwrap());
    let moved = store.schedule(schedule.id).await.unwrap().unwrap();
    assert_eq!(moved.record.next_at, Some(timestamp(160)), "a refused claim changes nothing");
    let turn = TurnId::from_uuid(fresh_uuid());
    let ended = Occurrence {
        turn: Some(turn),
        ended_at: Some(timestamp(170)),
        missed_since: Some(timestamp(130)),
        status: OccurrenceStatus::Ended("completed".into()),
        note: Some("not delivered: ü".into()),
        ..Occurrence::new(timestamp(160), timestamp(161))
    };
    store.put_occurrence(schedule.id, ended.clone()).await.unwrap();
    let known = store.occurrences(schedule.id, 9).await.unwrap();
    assert_eq!(known, std::slice::from_ref(&ended));
    assert_eq!(store.schedule(schedule.id).await.unwrap().unwrap().last, Some(ended.clone()));
    assert!(store.remove_schedule(schedule.id).await.unwrap());
    store.put_occurrence(schedule.id, ended).await.unwrap();
    assert!(store.occurrences(schedule.id, 9).await.unwrap().is_empty());
    store.close().await;
}

pub async fn skipped_occurrences_are_counted(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let schedule = every_minute();
    store.add_schedule(&schedule).await.unwrap();
    let first = claim(&schedule, timestamp(160), timestamp(220));
    assert!(store.advance_schedule(first).await.unwrap());
    for (from, to) in [(220, 280), (280, 340)] {
        let skip = ScheduleAdvance {
            start: ScheduleStart::Skipped { running: timestamp(160) },
            ..claim(&schedule, timestamp(from), timestamp(to))
        };
        assert!(store.advance_schedule(skip.clone()).await.unwrap());
        assert!(!store.advance_schedule(skip).await.unwrap());
    }
    let known = store.occurrences(schedule.id, 9).await.unwrap();
    assert_eq!((known.len(), known[0].skipped), (1, 2));
    let running = Occurrence { status: OccurrenceStatus::Running, ..known[0].clone() };
    let stale = Occurrence { skipped: 0, ..running };
    store.put_occurrence(schedule.id, stale).await.unwrap();
    assert_eq!(store.occurrences(schedule.id, 9).await.unwrap()[0].skipped, 2);
    store.close().await;
}

pub async fn a_paused_schedule_does_not_advance(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let schedule = every_minute();
    store.add_schedule(&schedule).await.unwrap();
    assert!(store.change_schedule(schedule.id, ScheduleChange::Pause).await.unwrap());
    let first = claim(&schedule, timestamp(160), timestamp(220));
    assert!(!store.advance_schedule(first).await.unwrap());
    let resumed = ScheduleChange::Resume { at: timestamp(300), next_at: Some(timestamp(340)) };
    assert!(store.change_schedule(schedule.id, resumed).await.unwrap());
    let shown = store.schedule(schedule.id).await.unwrap().unwrap().record;
    let expected = ScheduleRecord {
        active_since: timestamp(300),
        next_at: Some(timestamp(340)),
        ..schedule.clone()
    };
    assert_eq!(shown, expected);
    let late = claim(&schedule, timestamp(160), timestamp(220));
    assert!(!store.advance_schedule(late).await.unwrap());
    let nobody = ScheduleId::from_uuid(fresh_uuid());
    assert!(!store.change_schedule(nobody, ScheduleChange::Pause).await.unwrap());
    store.close().await;
}

pub async fn old_occurrences_are_forgotten(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let schedule = every_minute();
    store.add_schedule(&schedule).await.unwrap();
    let count = i64::try_from(MAX_OCCURRENCES).unwrap() + 5;
    for number in 0..count {
        let (from, to) = (timestamp(160 + 60 * number), timestamp(220 + 60 * number));
        assert!(store.advance_schedule(claim(&schedule, from, to)).await.unwrap());
    }
    let kept = store.occurrences(schedule.id, usize::MAX).await.unwrap();
    assert_eq!(kept.len(), MAX_OCCURRENCES);
    assert_eq!(kept[0].due_at, timestamp(160 + 60 * (count - 1)));
    store.close().await;
}

pub async fn schedules_survive_the_process(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let schedule = every_minute();
    let first = claim(&schedule, timestamp(160), timestamp(220));
    let killed = fixture.open();
    killed.add_schedule(&schedule).await.unwrap();
    assert!(killed.advance_schedule(first.clone()).await.unwrap());
    drop(killed);
    let store = fixture.open();
    assert!(!store.advance_schedule(first).await.unwrap(), "it was claimed before");
    let found = store.schedule(schedule.id).await.unwrap().unwrap();
    assert_eq!(found.record.next_at, Some(timestamp(220)));
    assert!(found.last.is_some_and(|last| last.is_open()));
    store.close().await;
}
