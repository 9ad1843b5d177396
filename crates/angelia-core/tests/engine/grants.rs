//! Tests of the grants of people, and of the calls that no setting allows without a person.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, CommandAccess, Decision, EventKind,
        PermissionLevel, SessionSpec, ToolAccess, ToolClass, ToolId, Verdict,
    },
    ports::{AgentEvent, TurnControl},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::harness::{EngineHarness, outcome};

fn request(key: &str, tool: &str, class: ToolClass, access: ToolAccess) -> ApprovalRequest {
    ApprovalRequest {
        key: key.into(),
        stage: ApprovalStage::Request,
        access,
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: Some(ToolId::new("t")),
        tool_name: tool.into(),
        class,
        subject: None,
        title: "t".into(),
        detail: "d".into(),
        input: Arc::from(serde_json::value::RawValue::from_string("{}".into()).unwrap()),
    }
}

fn bash(key: &str, script: &str) -> ApprovalRequest {
    let command = Some(CommandAccess::shell(script));
    let access = ToolAccess { command, ..ToolAccess::default() };
    let mut request = request(key, "Bash", ToolClass::Execute, access);
    request.suggestions = vec!["Bash(npm run *)".parse().unwrap()];
    request
}

fn write(key: &str, path: &str) -> ApprovalRequest {
    let access = ToolAccess { writes: vec![path.into()], ..ToolAccess::default() };
    request(key, "Write", ToolClass::Edit, access)
}

/// Sends a request that a person decides, and returns the rules that were offered.
async fn decide(
    stage: &EngineHarness,
    run: &mut ManualTurn,
    watch: &mut angelia_core::engine::TurnWatch,
    request: ApprovalRequest,
    decision: Decision,
) -> Vec<String> {
    run.emit(vec![AgentEvent::ApprovalRequest(request)]).await;
    let approval = loop {
        let batch = watch.next().await.unwrap().unwrap();
        let approval = batch.iter().find_map(|event| match &event.kind {
            EventKind::Approval(approval) => Some(approval.clone()),
            _ => None,
        });
        if let Some(approval) = approval {
            break approval;
        }
    };
    stage.engine.decide(approval.id, decision).await.unwrap();
    assert!(matches!(run.io.control.recv().await, Some(TurnControl::Decide { .. })));
    approval.rules.iter().map(ToString::to_string).collect()
}

/// Sends a request and returns the decision, which must come without a person.
async fn decided(run: &mut ManualTurn, request: ApprovalRequest) -> Decision {
    run.emit(vec![AgentEvent::ApprovalRequest(request)]).await;
    match run.io.control.recv().await {
        Some(TurnControl::Decide { decision, .. }) => decision,
        other => panic!("expected a decision, got {other:?}"),
    }
}

fn spec(profile: &str, cwd: &str) -> SessionSpec {
    SessionSpec { profile: profile.into(), ..SessionSpec::new("puppet", cwd) }
}

#[tokio::test(start_paused = true)]
async fn always_holds_in_later_sessions_of_the_profile_and_directory() {
    let stage = EngineHarness::new();
    let first = stage.session_with(spec("default", "/project")).await;
    let mut submitted = stage.submit(first.id, "build").await;
    let mut run = stage.control.next_turn().await;
    let always = Decision::new(Verdict::Always, "owner");
    let rules =
        decide(&stage, &mut run, &mut submitted.watch, bash("1", "npm run build"), always).await;
    assert_eq!(rules, ["Bash(npm run build)", "Bash(npm run *)"]);
    run.complete("done");
    outcome(stage.engine.watch(submitted.turn, 0).await.unwrap()).await;
    let stored = stage.store.rules().await.unwrap();
    assert_eq!(stored.len(), 1, "exactly what was shown: {stored:?}");

    let stage = stage.restart().await;
    for (profile, cwd, script, allowed) in [
        ("default", "/project", "npm run build", true),
        ("default", "/project", "npm run other", false),
        ("default", "/elsewhere", "npm run build", false),
        ("careful", "/project", "npm run build", false),
    ] {
        let session = stage.session_with(spec(profile, cwd)).await;
        let options =
            angelia_core::model::TurnOptions::new(angelia_core::model::TurnOrigin::Remote);
        let input = vec![angelia_core::model::Content::text("again")];
        let submitted = stage.engine.submit(session.id, input, options).await.unwrap();
        let mut run = stage.control.next_turn().await;
        let decision = decided(&mut run, bash("2", script)).await;
        assert_eq!(decision.verdict.allows(), allowed, "{profile} {cwd} {script}");
        run.complete("done");
        outcome(submitted.watch).await;
    }
    // A removed rule is asked about again, in a running engine too.
    assert!(stage.store.remove_rule(stored[0].id).await.unwrap());
    let session = stage.session_with(spec("default", "/project")).await;
    let mut submitted = stage.submit(session.id, "build").await;
    let mut run = stage.control.next_turn().await;
    let no = Decision::new(Verdict::Deny, "owner");
    decide(&stage, &mut run, &mut submitted.watch, bash("3", "npm run build"), no).await;
    run.complete("done");
}

#[tokio::test(start_paused = true)]
async fn a_wider_rule_is_granted_only_if_it_is_chosen() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut submitted = stage.submit(session.id, "build").await;
    let mut run = stage.control.next_turn().await;
    let once = Decision::new(Verdict::Session, "owner");
    decide(&stage, &mut run, &mut submitted.watch, bash("1", "npm run build"), once).await;
    assert!(decided(&mut run, bash("2", "npm run build")).await.verdict.allows());
    let wider = |rule: &str| Decision {
        rule: Some(rule.into()),
        ..Decision::new(Verdict::Session, "owner")
    };
    run.emit(vec![AgentEvent::ApprovalRequest(bash("3", "npm run other"))]).await;
    let approval = loop {
        let batch = submitted.watch.next().await.unwrap().unwrap();
        if let Some(EventKind::Approval(approval)) = batch.last().map(|event| &event.kind) {
            break approval.clone();
        }
    };
    let refused = stage.engine.decide(approval.id, wider("Bash")).await;
    assert!(matches!(refused, Err(EngineError::NotOffered(_))), "{refused:?}");
    stage.engine.decide(approval.id, wider("Bash(npm run *)")).await.unwrap();
    assert!(run.io.control.recv().await.is_some());
    assert!(decided(&mut run, bash("4", "npm run third")).await.verdict.allows());
    run.complete("done");
}

#[tokio::test(start_paused = true)]
async fn unattended_declines_protected_paths_and_says_how_to_allow_them() {
    let stage = EngineHarness::new();
    let mut spec = spec("default", "/project");
    spec.permissions.level = PermissionLevel::Unattended;
    let session = stage.session_with(spec).await;
    let submitted = stage.submit(session.id, "work").await;
    let mut run = stage.control.next_turn().await;
    assert!(decided(&mut run, write("1", "src/a")).await.verdict.allows());
    let hook = decided(&mut run, write("2", ".git/hooks/pre-commit")).await;
    assert_eq!((hook.verdict, &*hook.by), (Verdict::Deny, "nobody"));
    let note = hook.note.unwrap();
    assert!(note.contains("/project/.git/hooks/pre-commit is protected"), "{note}");
    assert!(note.contains("allowed_tools"), "{note}");
    run.complete("done");
    outcome(submitted.watch).await;
}

#[tokio::test(start_paused = true)]
async fn a_reported_call_goes_on_unless_it_is_protected() {
    let stage = EngineHarness::new();
    let session = stage.session_with(spec("default", "/project")).await;
    let mut submitted = stage.submit(session.id, "work").await;
    let mut run = stage.control.next_turn().await;
    let report =
        |request: ApprovalRequest| ApprovalRequest { stage: ApprovalStage::Report, ..request };
    run.emit(vec![AgentEvent::ApprovalRequest(report(bash("1", "ls")))]).await;
    let answer = run.io.control.recv().await;
    assert!(matches!(&answer, Some(TurnControl::Proceed { key }) if **key == *"1"), "{answer:?}");
    // A person allows the protected one; the request for the same call needs no second answer.
    let hook = report(write("2", ".git/config"));
    let yes = Decision::new(Verdict::Once, "owner");
    decide(&stage, &mut run, &mut submitted.watch, hook, yes).await;
    let same = decided(&mut run, write("3", ".git/config")).await;
    assert_eq!((same.verdict, &*same.by), (Verdict::Once, "owner"));
    run.complete("done");
}
