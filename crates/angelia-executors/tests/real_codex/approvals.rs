//! Approval requests of Codex, and the effect of every verdict.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use angelia_core::{
    model::{ApprovalRequest, PermissionLevel, ToolClass, TurnStatus, Verdict},
    ports::AgentEvent,
};
use angelia_testkit::direct_session::{DirectSession, TurnOutput};
use uuid::Uuid;

use crate::harness::{CodexHarness, add_file, exec, exec_escalated};

/// Runs a turn and answers every approval request with this verdict.
async fn run_with_verdict(
    session: &mut DirectSession,
    prompt: &str,
    verdict: Verdict,
) -> TurnOutput {
    let watch = move |emitted: &AgentEvent, hands: &angelia_testkit::direct_session::TurnHandle| {
        if let AgentEvent::ApprovalRequest(request) = emitted {
            hands.decide(request, verdict);
        }
    };
    session.prompt_watched(prompt, watch).await
}

fn only_request(heard: &TurnOutput) -> &ApprovalRequest {
    let asked = heard.approval_requests();
    assert_eq!(asked.len(), 1, "{heard:#?}");
    asked[0]
}

#[tokio::test]
async fn real_a_command_is_run_once_for_the_session_or_not_at_all() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.spec()).await;

    let heard = run_with_verdict(&mut session, &exec("mkdir once"), Verdict::Once).await;
    let asked = only_request(&heard);
    assert_eq!(asked.class, ToolClass::Execute);
    assert_eq!(asked.subject.as_deref(), Some("mkdir once"));
    assert!(lab.path("once").is_dir());

    let heard = run_with_verdict(&mut session, &exec("mkdir never"), Verdict::Deny).await;
    assert_eq!(heard.answer(), "done", "it goes on without it");
    assert!(!lab.path("never").exists());

    let heard = run_with_verdict(&mut session, &exec("date"), Verdict::Session).await;
    only_request(&heard);
    let heard = run_with_verdict(&mut session, &exec("date"), Verdict::Deny).await;
    assert!(heard.approval_requests().is_empty(), "allowed for the session: {heard:#?}");
    assert!(heard.tool_results()[0].ok);

    let heard = run_with_verdict(&mut session, &exec("mkdir late"), Verdict::Stop).await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted);
    assert!(!lab.path("late").exists());
    assert_eq!(session.prompt("ECHO:on").await.answer(), "on");

    // The decision was not saved for other sessions.
    assert!(!lab.home.join("rules/default.rules").exists());
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_file_change_shows_its_paths_and_waits() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.spec()).await;
    let heard = run_with_verdict(&mut session, &add_file("a.txt", "hello"), Verdict::Once).await;
    let asked = only_request(&heard);
    assert_eq!(asked.class, ToolClass::Edit);
    assert!(asked.subject.as_deref().unwrap().ends_with("a.txt"), "{asked:#?}");
    assert!(asked.detail.contains("1 file, +1"), "{asked:#?}");
    assert!(asked.input.get().contains("hello"), "{asked:#?}");
    assert_eq!(fs::read_to_string(lab.path("a.txt")).unwrap(), "hello\n");

    let heard = run_with_verdict(&mut session, &add_file("b.txt", "hello"), Verdict::Deny).await;
    only_request(&heard);
    assert_eq!(heard.answer(), "done");
    assert!(!lab.path("b.txt").exists());
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_unattended_runs_in_the_sandbox_and_asks_to_get_out() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.unattended()).await;
    let heard = session.prompt(&add_file("a.txt", "hello")).await;
    assert!(heard.approval_requests().is_empty() && lab.path("a.txt").exists());

    // Here the sandbox, not an approval, protects the rest of the machine.
    // `/tmp` and `$TMPDIR` are inside the sandbox, wherever these tests run.
    let outside = PathBuf::from(format!("/var/tmp/angelia-outside-{}", Uuid::now_v7()));
    let command = format!("touch {}; echo tried", outside.display());
    let heard = session.prompt(&exec(&command)).await;
    assert_eq!(heard.answer(), "done");
    assert!(heard.approval_requests().is_empty() && !outside.exists(), "{heard:#?}");

    let command = format!("touch {}", outside.display());
    let heard = run_with_verdict(&mut session, &exec_escalated(&command), Verdict::Once).await;
    assert_eq!(only_request(&heard).subject.as_deref(), Some(command.as_str()));
    fs::remove_file(outside).unwrap();
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_what_is_disallowed_is_seen_also_where_nobody_is_asked() {
    let lab = CodexHarness::new();
    let mut spec = lab.unattended();
    spec.permissions.level = PermissionLevel::Unattended;
    spec.permissions.disallowed = vec!["shell(rm*)".parse().unwrap()];
    let mut session = lab.open(&spec).await;
    fs::write(lab.path("kept"), "").unwrap();
    let rules = spec.permissions.clone();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let cwd = spec.cwd.clone();
    let heard = session
        .prompt_watched(&exec("rm kept"), move |emitted, hands| {
            if let AgentEvent::ApprovalRequest(request) = emitted {
                // Decide as the engine does.
                let answer = rules.check(request, &cwd);
                seen.lock().unwrap().push(format!("{answer:?}"));
                hands.decide(request, Verdict::Deny);
            }
        })
        .await;
    assert_eq!(heard.answer(), "done");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.len() == 1 && asked[0].starts_with("Deny"), "{asked:?}");
    assert!(lab.path("kept").exists());
    session.close().await;
    lab.close().await;
}
