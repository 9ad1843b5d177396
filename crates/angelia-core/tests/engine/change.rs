//! A session whose settings change, and a session whose agent is released.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, PermissionLevel, SessionId, ToolAccess,
        ToolClass, TurnStatus, Verdict,
    },
    ports::{AgentEvent, TurnControl},
};
use uuid::Uuid;

use crate::harness::{EngineHarness, outcome};

#[tokio::test(start_paused = true)]
async fn another_model_starts_the_agent_anew_on_the_same_conversation() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let first = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.complete("1");
    outcome(first.watch).await;
    let changed = stage
        .engine
        .change_session(session.id, |spec| spec.model = Some("other".into()))
        .await
        .unwrap();
    assert!(changed.native.is_some(), "{changed:?}");
    let stored = stage.engine.session(session.id).await.unwrap();
    assert_eq!(stored.spec.model.as_deref(), Some("other"));
    let second = stage.submit(session.id, "two").await;
    stage.control.next_turn().await.complete("2");
    outcome(second.watch).await;
    assert_eq!((stage.control.opened_agents(), stage.control.closed_agents()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn permissions_count_at_once_and_the_process_is_replaced_afterwards() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let first = stage.submit(session.id, "one").await;
    let mut run = stage.control.next_turn().await;
    run.emit_started().await;
    stage
        .engine
        .change_session(session.id, |spec| {
            spec.permissions.level = PermissionLevel::Unattended;
        })
        .await
        .unwrap();
    run.emit(vec![AgentEvent::ApprovalRequest(ApprovalRequest {
        key: "k".into(),
        stage: ApprovalStage::Request,
        access: ToolAccess::default(),
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "Bash".into(),
        class: ToolClass::Execute,
        subject: None,
        title: "make".into(),
        detail: "in /project".into(),
        input: Arc::from(serde_json::value::RawValue::from_string("{}".into()).unwrap()),
    })])
    .await;
    let Some(TurnControl::Decide { decision, .. }) = run.io.control.recv().await else {
        panic!("nothing was decided")
    };
    assert_eq!(decision.verdict, Verdict::Once);
    run.complete("1");
    outcome(first.watch).await;
    let second = stage.submit(session.id, "two").await;
    stage.control.next_turn().await.complete("2");
    outcome(second.watch).await;
    assert_eq!(stage.control.opened_agents(), 2);
    // Once is enough.
    let third = stage.submit(session.id, "three").await;
    stage.control.next_turn().await.complete("3");
    outcome(third.watch).await;
    assert_eq!(stage.control.opened_agents(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_at_rest_has_no_agent_and_goes_on_when_it_is_asked() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let first = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let resting = stage.engine.release_session(session.id);
    let stopping = async {
        run.io.cancel.cancelled().await;
        run.end(angelia_core::ports::AgentOutcome {
            status: TurnStatus::Interrupted,
            text: None,
            reason: "interrupted".into(),
        });
    };
    let (rested, ()) = tokio::join!(resting, stopping);
    rested.unwrap();
    assert_eq!(outcome(first.watch).await.status, TurnStatus::Interrupted);
    assert_eq!((stage.control.opened_agents(), stage.control.closed_agents()), (1, 1));
    // The session has no owner any more.
    let lease = stage.store.acquire_lease(session.id).await.unwrap();
    stage.store.release_lease(lease).await.unwrap();
    // Resting a session that already rests is not an error.
    stage.engine.release_session(session.id).await.unwrap();
    let second = stage.submit(session.id, "two").await;
    stage.control.next_turn().await.complete("2");
    assert_eq!(outcome(second.watch).await.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_cannot_be_changed() {
    let stage = EngineHarness::new();
    let nobody = SessionId::from_uuid(Uuid::from_u128(7));
    let changed = stage.engine.change_session(nobody, |_| {}).await;
    assert!(matches!(changed, Err(EngineError::NotFound(_))));
    let rested = stage.engine.release_session(nobody).await;
    assert!(matches!(rested, Err(EngineError::NotFound(_))));
}
