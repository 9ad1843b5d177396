//! A shutdown that lets running turns end first.

use std::time::Duration;

use angelia_core::{
    engine::{EngineError, SubmittedTurn},
    model::{Content, FailureKind, SessionId, TurnState, TurnStatus},
};
use tokio::time::Instant;

use crate::harness::{EngineHarness, options, outcome};

#[tokio::test(start_paused = true)]
async fn running_turns_end_and_new_ones_are_refused() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let turn = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let engine = stage.engine.clone();
    #[expect(clippy::disallowed_methods, reason = "the daemon's shutdown is another task")]
    let drained = tokio::spawn(async move { engine.drain(Duration::from_secs(10)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!drained.is_finished());
    let refused = stage.engine.submit(session, vec![Content::text("two")], options()).await;
    assert!(matches!(refused, Err(EngineError::ShuttingDown)), "{refused:?}");
    run.complete("done");
    assert_eq!(outcome(turn.watch).await.status, TurnStatus::Completed);
    drained.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_end_is_not_waited_for_longer() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let _turn = stage.submit(session, "one").await;
    let _run = stage.control.next_turn().await;
    let began = Instant::now();
    stage.engine.drain(Duration::from_secs(10)).await;
    let waited = began.elapsed();
    assert!((10..11).contains(&waited.as_secs()), "{waited:?}");
}

/// Begins a drain while one turn runs and another waits, ends the first, and returns the second.
async fn leave_one_queued(stage: &EngineHarness, session: SessionId) -> SubmittedTurn {
    let first = stage.submit(session, "one").await;
    let second = stage.submit(session, "two").await;
    let run = stage.control.next_turn().await;
    stage.engine.begin_drain();
    run.complete("done");
    outcome(first.watch).await;
    second
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_taken_back_lets_the_queue_go_on() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let second = leave_one_queued(&stage, session).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(stage.engine.turn(second.turn).await.unwrap().state, TurnState::Queued);
    // Nothing runs, so there is nothing to wait for.
    let began = Instant::now();
    stage.engine.drain(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    stage.engine.end_drain();
    assert!(stage.engine.wait_until_accepting().await);
    stage.control.next_turn().await.complete("two");
    assert_eq!(outcome(second.watch).await.status, TurnStatus::Completed);
    let third = stage.submit(session, "three").await;
    stage.control.next_turn().await.complete("three");
    assert_eq!(outcome(third.watch).await.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_can_be_interrupted_during_a_drain() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let second = leave_one_queued(&stage, session).await;
    stage.engine.interrupt(second.turn, false).await.unwrap();
    assert_eq!(outcome(second.watch).await.status, TurnStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_fails_what_runs_and_leaves_what_is_queued() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let running = stage.submit(session, "one").await;
    let queued = stage.submit(session, "two").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let old = stage.engine.clone();
    old.hand_over();
    let next = stage.restart().await;
    let TurnStatus::Failed(failure) = outcome(running.watch).await.status else {
        panic!("it was ended");
    };
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert_eq!(old.turn(queued.turn).await.unwrap().state, TurnState::HandedOver);
    assert!(!old.wait_until_accepting().await);

    assert_eq!(next.engine.recover_lost_turns().await.unwrap(), 0);
    assert_eq!(next.engine.resume_turns().await.unwrap(), 1);
    let watch = next.engine.watch(queued.turn, 0).await.unwrap();
    next.control.next_turn().await.complete("two");
    assert_eq!(outcome(watch).await.status, TurnStatus::Completed);
}
