//! A shutdown that lets running turns end first.

use std::time::Duration;

use angelia_core::{
    engine::EngineError,
    model::{Content, TurnStatus},
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
