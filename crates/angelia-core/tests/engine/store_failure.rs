//! A store that fails for a while during a turn.

use angelia_core::{
    model::{EventKind, TurnState, TurnStatus},
    ports::{AgentOutcome, Store as _},
};

use crate::{
    approvals::approval_request,
    harness::{EngineHarness, outcome},
};

/// Numbers that no viewer has seen are used again after a failure. The events of the failed write
/// must not come back under the same numbers, or the end of the turn would be refused.
#[tokio::test(start_paused = true)]
async fn a_failed_write_does_not_take_the_number_of_the_end() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let first = stage.submit(session, "one").await;
    stage.control.next_turn().await.complete("1");
    outcome(first.watch).await;

    let submitted = stage.submit(session, "two").await;
    let run = stage.control.next_turn().await;
    store.set_failing(true);
    run.emit(vec![approval_request("q1")]).await;
    run.io.cancel.cancelled().await;
    store.set_failing(false);
    run.end(AgentOutcome {
        status: TurnStatus::Interrupted,
        text: None,
        reason: "interrupted".into(),
    });
    let ended = outcome(submitted.watch).await;
    assert!(matches!(ended.status, TurnStatus::Failed(_)), "{ended:?}");
    let record = stage.engine.turn(submitted.turn).await.unwrap();
    assert!(matches!(record.state, TurnState::Finished { .. }), "{record:?}");
    let stored = store.replay(submitted.turn, 0, 9).await.unwrap();
    assert!(
        matches!(&stored[..], [end] if matches!(end.kind, EventKind::Finished(_))),
        "{stored:?}"
    );
}
