//! Viewers: any number, from any event number, at any speed.

use angelia_core::{
    engine::{EngineChange, NewSession},
    model::{SessionSource, SessionSpec},
};

use crate::harness::{EngineHarness, all_events, outcome};

/// Runs a turn in a session from there, and returns what is announced of both.
async fn announced(stage: &EngineHarness, source: Option<SessionSource>) -> Vec<EngineChange> {
    let mut changes = stage.engine.subscribe();
    let spec = SessionSpec::new("puppet", "/project");
    let new = NewSession { spec, title: None, name: None, source };
    let session = stage.engine.create_session(new).await.unwrap();
    let submitted = stage.submit(session.id, "talk").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.complete("done");
    outcome(submitted.watch).await;
    let own = [EngineChange::Session(session.id), EngineChange::Turn(submitted.turn)];
    let mut found = Vec::new();
    while let Ok(change) = changes.try_recv() {
        found.extend(own.contains(&change).then_some(change));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_session_that_no_list_shows_is_not_announced() {
    let stage = EngineHarness::new();
    assert!(announced(&stage, Some(SessionSource::Terminal)).await.len() > 2);
    let review = SessionSource::Review("01a1ebd2-8942-737a-a871-17b20b1428ad".into());
    assert_eq!(announced(&stage, Some(review)).await, []);
}

#[tokio::test(start_paused = true)]
async fn any_viewer_resumes_from_any_number_and_sees_the_same() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "talk").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    for block in 0..20 {
        run.emit_answer(block, &format!("block {block}")).await;
    }
    let mut watchers = Vec::new();
    for after in 0..=41 {
        watchers.push((after, stage.engine.watch(submitted.turn, after).await.unwrap()));
    }
    run.complete("done");
    let whole = all_events(submitted.watch).await;
    assert_eq!(whole.len(), 42);
    for (after, watch) in watchers {
        let tail = all_events(watch).await;
        let expected: Vec<_> = whole.iter().filter(|e| e.seq > after).map(|e| e.seq).collect();
        assert_eq!(tail.iter().map(|e| e.seq).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_never_reads_holds_nobody_up() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "talk").await;
    let _asleep = stage.engine.watch(submitted.turn, 0).await.unwrap();
    let run = stage.control.next_turn().await;
    for block in 0..10_000 {
        run.emit_answer(block, "x").await;
    }
    run.complete("done");
    assert_eq!(&*outcome(submitted.watch).await.text, "done");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_has_just_ended_is_shown_whole_and_an_older_one_without_its_deltas() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut turns = Vec::new();
    for _ in 0..20 {
        let submitted = stage.submit(session.id, "talk").await;
        let run = stage.control.next_turn().await;
        run.emit_started().await;
        run.emit_answer(0, "hello").await;
        run.complete("hello");
        outcome(submitted.watch).await;
        turns.push(submitted.turn);
    }
    let numbers = async |turn| {
        let events = all_events(stage.engine.watch(turn, 0).await.unwrap()).await;
        events.iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(numbers(turns[19]).await, [1, 2, 3, 4]);
    assert_eq!(numbers(turns[0]).await, [1, 3, 4]);

    // A long turn is read only from the store, even if it is recent.
    for (times, text) in [(1, "x".repeat(2 << 20)), (600, "x".to_owned())] {
        let submitted = stage.submit(session.id, "talk").await;
        let run = stage.control.next_turn().await;
        for block in 0..times {
            run.emit_answer(block, &text).await;
        }
        run.complete("done");
        outcome(submitted.watch).await;
        let shown = numbers(submitted.turn).await;
        assert_eq!(shown.len(), times as usize + 1, "{shown:?}");
    }
    assert_eq!(numbers(turns[19]).await, [1, 2, 3, 4]);
}
