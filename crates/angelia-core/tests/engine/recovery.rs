//! Recovery from the turns that a killed process left behind.

use std::sync::Arc;

use angelia_core::{
    model::{
        Content, EventKind, FailureKind, TextChannel, TurnEvent, TurnId, TurnOptions, TurnOrigin,
        TurnRecord, TurnState,
    },
    ports::Store,
};
use uuid::Uuid;

use crate::harness::{EngineHarness, all_events};

/// Writes the records of a process that dies in the middle of a turn: the lease is released without
/// a `Finished`, as after a death.
async fn leave_unfinished_turn(store: &Arc<dyn Store>, stage: &EngineHarness) -> TurnId {
    let session = stage.session().await;
    let lease = store.acquire_lease(session.id).await.unwrap();
    let turn = TurnId::from_uuid(Uuid::from_u128(7));
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    let record = TurnRecord {
        id: turn,
        session: session.id,
        input: vec![Content::text("work")],
        options: TurnOptions::new(TurnOrigin::Owner),
        created_at: at,
        state: TurnState::Running,
    };
    store.create_turn(&lease, &record.into()).await.unwrap();
    let kind = EventKind::Block { block: 0, channel: TextChannel::Answer, text: "so far".into() };
    let event = TurnEvent { turn, session: session.id, seq: 3, at, kind };
    store.append(&lease, vec![event]).await.unwrap().await.unwrap();
    store.release_lease(lease).await.unwrap();
    turn
}

#[tokio::test(start_paused = true)]
async fn a_lost_turn_is_closed_once_as_failed_with_what_there_was() {
    let stage = EngineHarness::new();
    let turn = leave_unfinished_turn(&stage.store, &stage).await;
    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 1);
    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 0);

    let record = stage.engine.turn(turn).await.unwrap();
    let outcome = record.state.outcome().expect("it has an end");
    assert_eq!(outcome.status.failure().unwrap().kind, FailureKind::Internal);
    assert_eq!(&*outcome.text, "so far");
    // A viewer that has seen deltas that were never stored still gets the end.
    let tail = all_events(stage.engine.watch(turn, 5_000).await.unwrap()).await;
    assert!(matches!(tail.as_slice(), [TurnEvent { kind: EventKind::Finished(_), .. }]));
}

#[tokio::test(start_paused = true)]
async fn an_open_approval_of_a_dead_process_is_declined() {
    let stage = EngineHarness::new();
    let turn = leave_unfinished_turn(&stage.store, &stage).await;
    let record = stage.engine.turn(turn).await.unwrap();
    let lease = stage.store.acquire_lease(record.session).await.unwrap();
    let id = angelia_core::model::ApprovalId::from_uuid(Uuid::from_u128(9));
    let at = record.created_at;
    let kind = EventKind::Approval(angelia_core::model::Approval {
        id,
        kind: angelia_core::model::ApprovalKind::Tool,
        tool_id: None,
        tool_name: "Bash".into(),
        title: "make".into(),
        detail: "in /project".into(),
        expires_at: at,
    });
    let event = TurnEvent { turn, session: record.session, seq: 4, at, kind };
    stage.store.append(&lease, vec![event]).await.unwrap().await.unwrap();
    stage.store.release_lease(lease).await.unwrap();

    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 1);
    let events = all_events(stage.engine.watch(turn, 4).await.unwrap()).await;
    let [TurnEvent { kind: EventKind::Resolved(resolution), .. }, _end] = events.as_slice() else {
        panic!("expected a resolution and the end, got {events:?}")
    };
    assert_eq!((resolution.id, &*resolution.by), (id, "restart"));
    assert!(!resolution.verdict.allows());
}
