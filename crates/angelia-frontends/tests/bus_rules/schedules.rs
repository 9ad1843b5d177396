//! Schedules that become turns: when, how often, in which session, and where the result goes. Time is
//! paused.

use std::time::Duration;

use angelia_core::{
    engine::{NewSession, RequestKey, Submission},
    model::{
        Content, MissedPolicy, Occurrence, OccurrenceStatus, OverlapPolicy, ScheduleId,
        ScheduleRecord, SessionSource, SessionSpec, TurnOptions, TurnOrigin, TurnState,
    },
    ports::{Page, ScheduleAdvance, ScheduleStart},
};
use angelia_testkit::unreliable_store::WriteFault;
use jiff::Timestamp;
use tokio::time::sleep;

use super::{
    context::prompt_text,
    schedule_harness::{ScheduleHarness, seconds},
};

#[tokio::test(start_paused = true)]
async fn each_occurrence_is_an_unattended_turn_in_a_session_of_its_own() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let id = stage.add("every 10s", |_| {}).await;
    let mut sessions = Vec::new();
    for number in 1..=3 {
        let turn = stage.turn().await;
        assert_eq!(seconds(stage.engine.now()), 10 * number);
        assert_eq!(prompt_text(&turn), "look");
        let options = &turn.turn.options;
        assert_eq!((options.origin, options.can_ask), (TurnOrigin::Remote, false));
        let session = stage.engine.session(turn.turn.session).await.unwrap();
        assert_eq!(session.source, Some(SessionSource::Schedule));
        assert_eq!(session.title.as_deref(), Some("schedule: look"));
        sessions.push(session.id);
        let turn_id = turn.turn.id;
        turn.complete("seen");
        let last = stage.ended(id).await;
        assert_eq!((last.turn, last.status.as_str()), (Some(turn_id), "completed"));
        assert_eq!(seconds(last.due_at), 10 * number);
        assert_eq!((last.missed_since, last.skipped), (None, 0));
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
    assert_eq!(stage.engine.occurrences(id, 9).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_named_session_is_begun_once_and_continued() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let id = stage.add("every 10s", |one| one.session = Some("nightly".into())).await;
    let first = stage.turn().await;
    let session = first.turn.session;
    first.complete("1");
    let second = stage.turn().await;
    assert_eq!(second.turn.session, session);
    second.complete("2");
    stage.ended(id).await;
    // By its id, also one that is gone.
    stage.engine.remove_schedule(id).await.unwrap();
    let by_id = Some(session.to_string().into());
    let id = stage.add("at 2030-01-01T00:00:00Z", |one| {
        one.session = by_id;
        one.next_at = Some(one.created_at + Duration::from_secs(1));
    });
    let id = id.await;
    stage.engine.delete_session(session).await.unwrap();
    let last = stage.ended(id).await;
    assert_eq!((last.status.as_str(), last.turn), ("failed", None));
    assert!(last.note.unwrap().contains("no such session"));
}

#[tokio::test(start_paused = true)]
async fn what_comes_due_while_a_turn_runs_is_skipped_and_counted() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let id = stage.add("every 10s", |_| {}).await;
    let turn = stage.turn().await;
    sleep(Duration::from_secs(35)).await;
    assert!(stage.strings.try_next_turn().is_none());
    turn.complete("late");
    let last = stage.ended(id).await;
    assert_eq!((seconds(last.due_at), last.skipped), (10, 3));
    let turn = stage.turn().await;
    assert_eq!(seconds(stage.last(id).await.due_at), 50);
    turn.complete("on time");
}

#[tokio::test(start_paused = true)]
async fn with_queue_one_turn_runs_afterwards() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let queue = |one: &mut ScheduleRecord| {
        one.overlap = OverlapPolicy::Queue;
        one.missed = MissedPolicy::Skip;
    };
    let id = stage.add("every 10s", queue).await;
    let turn = stage.turn().await;
    // Less than a silent agent may take.
    sleep(Duration::from_secs(55)).await;
    assert!(stage.strings.try_next_turn().is_none());
    turn.complete("late");
    let turn = stage.turn().await;
    assert_eq!(seconds(stage.last(id).await.due_at), 60);
    turn.complete("held back");
    stage.ended(id).await;
    assert_eq!(stage.engine.occurrences(id, 9).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn missed_times_are_one_turn_or_none() {
    let mut stage = ScheduleHarness::new();
    let runs = stage.add("every 1h", |_| {}).await;
    let skips = stage.add("every 1h", |one| one.missed = MissedPolicy::Skip).await;
    sleep(Duration::from_mins(310)).await;
    stage.start();
    let turn = stage.turn().await;
    let last = stage.last(runs).await;
    assert_eq!(seconds(last.due_at), 5 * 3600);
    assert_eq!(last.missed_since.map(seconds), Some(3600));
    turn.complete("caught up");
    let missed = stage.ended(skips).await;
    assert_eq!((missed.status, missed.turn), (OccurrenceStatus::Missed, None));
    assert_eq!(missed.missed_since.map(seconds), Some(3600));
    // Both go on.
    for _ in 0..2 {
        stage.turn().await.complete("on time");
    }
}

/// Claims the next occurrence when it is due, as a process does that is killed then.
async fn claim_next(stage: &ScheduleHarness, id: ScheduleId) -> Timestamp {
    let record = stage.engine.schedule(id).await.unwrap().record;
    sleep(Duration::from_hours(1)).await;
    let due = record.next_at.unwrap();
    let claim = ScheduleAdvance {
        schedule: id,
        from: record.next_at,
        to: record.next_after(due),
        start: ScheduleStart::Occurrence(Occurrence::new(due, due)),
    };
    assert!(stage.engine.advance_schedule(claim).await.unwrap());
    due
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_turn_is_reported_and_not_run() {
    let mut stage = ScheduleHarness::new();
    let id = stage.add("every 1h", |one| one.to = Some("desk".into())).await;
    claim_next(&stage, id).await;
    // The process was killed here.
    stage.start();
    let last = stage.ended(id).await;
    assert_eq!((last.status, last.turn), (OccurrenceStatus::Missed, None));
    assert!(last.note.unwrap().contains("killed before the turn began"));
    let message = stage.message().await;
    assert_eq!(message["body"]["status"], "missed");
    let turn = stage.turn().await;
    assert_eq!(seconds(stage.engine.now()), 7200, "only the next one runs");
    turn.complete("x");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_submitted_is_followed_and_not_run_again() {
    let mut stage = ScheduleHarness::new();
    let id = stage.add("every 1h", |one| one.to = Some("desk".into())).await;
    let due = claim_next(&stage, id).await;
    let new = NewSession {
        spec: SessionSpec::new("puppet", "/project"),
        title: None,
        name: None,
        source: Some(SessionSource::Schedule),
    };
    let session = stage.engine.create_session(new).await.unwrap().id;
    let key = RequestKey {
        caller: format!("schedule:{id}").into(),
        key: due.to_string().into(),
        input: Some([0; 32]),
        window: Duration::from_hours(1),
    };
    let options = TurnOptions::new(TurnOrigin::Remote);
    let new = Submission::new(session, vec![Content::text("look")], options);
    let submitted = stage.engine.submit_with(Submission { key: Some(key), ..new }).await.unwrap();
    // The process was killed here: the occurrence does not know its turn.
    let running = stage.turn().await;
    stage.start();
    running.complete("done all the same");
    let last = stage.ended(id).await;
    assert_eq!((last.turn, last.status.as_str()), (Some(submitted.turn), "completed"));
    assert_eq!(stage.message().await["body"]["text"], "done all the same");
    assert_eq!(stage.engine.turns(None, Page::first(9)).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_of_an_earlier_process_is_sent_once_by_the_next() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let id = stage.add("every 1h", |one| one.to = Some("desk".into())).await;
    let turn = stage.turn().await;
    stage.stop().await;
    let turn_id = turn.turn.id;
    turn.complete("said while nobody listened");
    while !matches!(stage.engine.turn(turn_id).await.unwrap().state, TurnState::Finished { .. }) {
        sleep(Duration::from_millis(1)).await;
    }
    stage.start();
    let message = stage.message().await;
    assert_eq!(message["id"], format!("schedule-{turn_id}"));
    assert_eq!((&message["from"], &message["to"]), (&"angelia".into(), &"desk".into()));
    let body = &message["body"];
    assert_eq!(body["text"], "said while nobody listened");
    assert_eq!((&body["type"], &body["status"]), (&"schedule".into(), &"completed".into()));
    assert_eq!(body["schedule_id"], id.to_string());
    stage.ended(id).await;
    assert!(stage.published.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn results_reach_their_channel_and_failures_are_noted() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let to = |to: &'static str| move |one: &mut ScheduleRecord| one.to = Some(to.into());
    let id = stage.add("every 1h", to("chat:team")).await;
    stage.turn().await.complete("for the team");
    let last = stage.ended(id).await;
    assert_eq!(last.note, None);
    while stage.courier.chat.received().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let received = stage.courier.chat.received();
    assert_eq!(received, [("team".to_owned(), "for the team".to_owned())]);
    stage.engine.remove_schedule(id).await.unwrap();
    let id = stage.add("every 1h", to("moon:base")).await;
    stage.turn().await.complete("for nobody");
    let last = stage.ended(id).await;
    assert_eq!(last.status.as_str(), "completed");
    let note = last.note.unwrap();
    assert!(note.contains("not delivered: there is no platform `moon`"), "{note}");
    stage.engine.remove_schedule(id).await.unwrap();
    // A turn that cannot begin is reported too.
    let id = stage.add("every 1h", |one| {
        one.profile = Some("nowhere".into());
        one.to = Some("desk".into());
    });
    let id = id.await;
    let last = stage.ended(id).await;
    assert_eq!((last.status.as_str(), last.turn), ("failed", None));
    let body = stage.message().await["body"].clone();
    assert_eq!(body["status"], "failed");
    assert!(body["text"].as_str().unwrap().contains("there is no such profile"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_or_removed_schedule_runs_nothing() {
    let mut stage = ScheduleHarness::new();
    stage.start();
    let id = stage.add("every 10s", |_| {}).await;
    stage.engine.set_schedule_paused(id, true).await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert!(stage.strings.try_next_turn().is_none());
    stage.engine.set_schedule_paused(id, false).await.unwrap();
    let turn = stage.turn().await;
    let last = stage.last(id).await;
    assert_eq!((seconds(last.due_at), last.missed_since), (110, None));
    stage.engine.remove_schedule(id).await.unwrap();
    turn.complete("its turn goes on");
    sleep(Duration::from_secs(100)).await;
    assert!(stage.strings.try_next_turn().is_none());
}

/// A store that fails in every write in turn: no occurrence runs twice, and the schedule goes on.
#[tokio::test(start_paused = true)]
async fn writes_that_fail_repeat_nothing() {
    for fault in WriteFault::ALL {
        for write in 1..8 {
            let mut stage = ScheduleHarness::new();
            stage.start();
            let id = stage.add("every 1m", |_| {}).await;
            stage.store.fail_writes(write, 1, fault);
            let mut due = Vec::new();
            while due.len() < 3 {
                let turn = stage.turn().await;
                due.push(stage.last(id).await.due_at);
                turn.complete("x");
                // The end of a turn may be written late.
                sleep(Duration::from_secs(30)).await;
            }
            let mut sorted = due.clone();
            sorted.dedup();
            assert_eq!(sorted, due, "{fault:?} {write}");
            assert!(due.is_sorted(), "{fault:?} {write}: {due:?}");
            stage.stop().await;
        }
    }
}
