//! Tests that the diff of an edit is recorded once: with the approval, or with the result if no
//! person was asked.

use std::sync::Arc;

use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Decision, EventKind, FileChange, FileEdit,
        Mode, PermissionLevel, SessionSpec, ToolAccess, ToolClass, ToolId, ToolResult, Verdict,
    },
    ports::{AgentEvent, TurnControl},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::harness::EngineHarness;

const DIFF: &str = "--- a/notes.txt\n+++ b/notes.txt\n";

fn edit(call: &str, stage: ApprovalStage) -> AgentEvent {
    let change = FileChange::Write("new".into());
    AgentEvent::ApprovalRequest(ApprovalRequest {
        key: call.into(),
        stage,
        access: ToolAccess { writes: vec!["notes.txt".into()], ..ToolAccess::default() },
        suggestions: Vec::new(),
        edits: vec![FileEdit { path: "notes.txt".into(), change }],
        kind: ApprovalKind::Tool,
        tool_id: Some(ToolId::new(call)),
        tool_name: "Write".into(),
        class: ToolClass::Edit,
        subject: None,
        title: "notes.txt".into(),
        detail: "d".into(),
        input: Arc::from(serde_json::value::RawValue::from_string("{}".into()).unwrap()),
    })
}

async fn end_call(run: &ManualTurn, call: &str, ok: bool) {
    let result = ToolResult::new(ToolId::new(call), ok, "done");
    run.emit(vec![AgentEvent::Event(EventKind::ToolResult(result))]).await;
}

/// Runs a turn whose agent edits a file in several ways. Returns the diffs of the questions and of
/// the results.
async fn edit_in_many_ways(level: PermissionLevel, mode: Mode) -> (usize, Vec<Option<String>>) {
    let stage = EngineHarness::new();
    let mut spec = SessionSpec::new("puppet", "/project");
    (spec.permissions.level, spec.mode) = (level, mode);
    let session = stage.session_with(spec).await;
    let mut submitted = stage.submit(session.id, "edit").await;
    let mut run = stage.control.next_turn().await;
    let play = async move {
        // Some agents report a call, and then ask for it.
        for (call, stages, ok) in [
            ("asked", &[ApprovalStage::Request][..], true),
            ("reported", &[ApprovalStage::Report, ApprovalStage::Request], true),
            ("failed", &[ApprovalStage::Request], false),
        ] {
            for stage in stages {
                run.emit(vec![edit(call, *stage)]).await;
                let control = run.io.control.recv().await;
                let is_answer = matches!(
                    control,
                    Some(TurnControl::Decide { .. } | TurnControl::Proceed { .. })
                );
                assert!(is_answer, "{control:?}");
            }
            end_call(&run, call, ok).await;
        }
        run.complete("done");
    };
    let (mut asked, mut results) = (0, Vec::new());
    let follow = async {
        while let Some(batch) = submitted.watch.next().await.unwrap() {
            for event in batch.iter() {
                match &event.kind {
                    EventKind::Approval(approval) => {
                        assert_eq!(approval.diff.as_deref(), Some(DIFF));
                        asked += 1;
                        let yes = Decision::new(Verdict::Once, "owner");
                        stage.engine.decide(approval.id, yes).await.unwrap();
                    }
                    EventKind::ToolResult(result) => {
                        results.push(result.diff.as_deref().map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
    };
    tokio::join!(play, follow);
    (asked, results)
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_shown_once_and_only_if_it_was_made() {
    let shown = || Some(DIFF.to_owned());
    // No person is asked: the result has the diff, unless nothing was changed.
    let unasked = edit_in_many_ways(PermissionLevel::Edit, Mode::Agent).await;
    assert_eq!(unasked, (0, vec![shown(), shown(), None]));
    let asked = edit_in_many_ways(PermissionLevel::Ask, Mode::Agent).await;
    assert_eq!(asked, (3, vec![None, None, None]));
    // In model mode nothing on this machine changes, so nothing is compared.
    let (_, results) = edit_in_many_ways(PermissionLevel::Edit, Mode::Model).await;
    assert_eq!(results, [None, None, None]);
}
