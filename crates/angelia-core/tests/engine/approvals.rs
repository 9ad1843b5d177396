//! Approval requests of an agent: requested, decided, withdrawn, remembered, declined.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Content, Decision, EventKind,
        PermissionLevel, SessionSpec, ToolAccess, ToolClass, ToolId, TurnEvent, TurnOptions,
        TurnOrigin, TurnState, TurnStatus, Verdict,
    },
    ports::{AgentEvent, AgentOutcome, TurnControl},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::harness::{EngineHarness, all_events, outcome};

pub(crate) fn approval_request(key: &str) -> AgentEvent {
    AgentEvent::ApprovalRequest(ApprovalRequest {
        key: key.into(),
        stage: ApprovalStage::Request,
        access: ToolAccess::default(),
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "Bash".into(),
        class: ToolClass::Execute,
        subject: Some("make".into()),
        title: "Bash: make".into(),
        detail: "in /project".into(),
        input: Arc::from(serde_json::value::RawValue::from_string("{}".into()).unwrap()),
    })
}

async fn next_decision(run: &mut ManualTurn) -> Decision {
    match run.io.control.recv().await {
        Some(TurnControl::Decide { decision, .. }) => decision,
        other => panic!("expected a decision, got {other:?}"),
    }
}

fn approval_id(events: &[TurnEvent]) -> angelia_core::model::ApprovalId {
    let asked = events.iter().find_map(|event| match &event.kind {
        EventKind::Approval(approval) => Some(approval.id),
        _ => None,
    });
    asked.expect("an approval was requested")
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_wins_and_session_is_remembered() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut submitted = stage.submit(session.id, "build").await;
    let mut run = stage.control.next_turn().await;
    run.emit(vec![approval_request("q1")]).await;
    let batch = submitted.watch.next().await.unwrap().unwrap();
    let id = approval_id(&batch);
    while stage.engine.turn(submitted.turn).await.unwrap().state != TurnState::AwaitingApproval {
        tokio::task::yield_now().await;
    }
    stage.engine.decide(id, Decision::new(Verdict::Session, "owner")).await.unwrap();
    let late = stage.engine.decide(id, Decision::new(Verdict::Deny, "owner")).await;
    assert!(matches!(late, Err(EngineError::NotPending)));
    let told = next_decision(&mut run).await;
    assert_eq!(told.verdict, Verdict::Once, "the agent itself must remember nothing");

    run.emit(vec![approval_request("q2")]).await;
    let again = next_decision(&mut run).await;
    assert_eq!((again.verdict, &*again.by), (Verdict::Once, "rule"));
    run.complete("done");
    outcome(stage.engine.watch(submitted.turn, 0).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_answer_it_is_declined_with_a_notice() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let options = TurnOptions::new(TurnOrigin::Remote);
    let input = vec![Content::text("build")];
    let submitted = stage.engine.submit(session.id, input, options).await.unwrap();
    let mut run = stage.control.next_turn().await;
    run.emit(vec![approval_request("q1")]).await;
    let decision = next_decision(&mut run).await;
    assert_eq!((decision.verdict, &*decision.by), (Verdict::Deny, "nobody"));
    assert!(decision.note.is_some());
    run.complete("done");
    let events = all_events(submitted.watch).await;
    let noticed = events.iter().any(
        |event| matches!(&event.kind, EventKind::Notice(notice) if &*notice.code == "declined"),
    );
    assert!(noticed, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_open_when_the_turn_ends_or_is_withdrawn_is_resolved() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "build").await;
    let run = stage.control.next_turn().await;
    run.emit(vec![approval_request("q1"), approval_request("q2")]).await;
    run.emit(vec![AgentEvent::ApprovalWithdrawn("q1".into())]).await;
    run.complete("done");
    let events = all_events(submitted.watch).await;
    let by: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Resolved(resolution) => Some(resolution.by.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(by, ["agent", "turn ended"]);
    let late = stage.engine.decide(approval_id(&events), Decision::new(Verdict::Once, "x")).await;
    assert!(matches!(late, Err(EngineError::NotPending)));
}

/// More decisions than the channel to the agent holds, all made before the agent reads the first.
#[tokio::test(start_paused = true)]
async fn no_decision_is_lost_while_the_agent_does_not_read() {
    const REQUESTS: usize = 40;
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut submitted = stage.submit(session.id, "build").await;
    let mut run = stage.control.next_turn().await;
    run.emit((0..REQUESTS).map(|n| approval_request(&n.to_string())).collect()).await;
    let asked = submitted.watch.next().await.unwrap().unwrap();
    assert_eq!(asked.len(), REQUESTS);
    for event in asked.iter() {
        let EventKind::Approval(approval) = &event.kind else { panic!("{event:?}") };
        let decision = Decision::new(Verdict::Once, "owner");
        stage.engine.decide(approval.id, decision).await.unwrap();
    }
    for n in 0..REQUESTS {
        match run.io.control.recv().await {
            Some(TurnControl::Decide { key, .. }) => assert_eq!(*key, *n.to_string()),
            other => panic!("expected decision {n}, got {other:?}"),
        }
    }
    run.complete("done");
    outcome(stage.engine.watch(submitted.turn, 0).await.unwrap()).await;
}

/// The calls of one message arrive together; only those that the budget covers are allowed.
#[tokio::test(start_paused = true)]
async fn a_request_beyond_the_tool_budget_is_refused() {
    let stage = EngineHarness::new();
    let mut spec = SessionSpec::new("puppet", "/project");
    spec.permissions.level = PermissionLevel::Unattended;
    spec.budgets.tools = Some(2);
    spec.budgets.resumes = 0;
    let session = stage.session_with(spec).await;
    let submitted = stage.submit(session.id, "build").await;
    let mut run = stage.control.next_turn().await;
    let request_of = |tool: &str| match approval_request(tool) {
        AgentEvent::ApprovalRequest(request) => AgentEvent::ApprovalRequest(ApprovalRequest {
            tool_id: Some(ToolId::new(tool)),
            ..request
        }),
        other => other,
    };
    // A report and a request of the same call count once.
    run.emit(vec![request_of("a"), request_of("a"), request_of("b"), request_of("c")]).await;
    for allowed in [true, true, true, false] {
        assert_eq!(next_decision(&mut run).await.verdict.allows(), allowed);
    }
    run.io.cancel.cancelled().await;
    run.emit(vec![request_of("a")]).await;
    assert!(!next_decision(&mut run).await.verdict.allows(), "the turn is being stopped");
    run.end(AgentOutcome::interrupted("interrupted"));
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Partial);
}
