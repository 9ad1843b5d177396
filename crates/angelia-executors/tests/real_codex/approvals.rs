//! Approval requests of Codex, and the effect of every verdict.

use std::{fs, path::PathBuf};

use angelia_core::{
    model::{ApprovalRequest, CommandAccess, ToolClass, TurnStatus, Verdict},
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
    let heard = run_with_verdict(&mut session, &exec("date"), Verdict::Once).await;
    only_request(&heard);
    assert!(heard.tool_results()[0].ok, "the engine remembers, Codex asks again");

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
async fn real_every_call_is_asked_about_and_what_is_allowed_stays_in_the_sandbox() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.unattended()).await;
    let heard = run_with_verdict(&mut session, &add_file("a.txt", "hello"), Verdict::Once).await;
    let asked = only_request(&heard);
    assert!(asked.access.writes[0].ends_with("a.txt") && lab.path("a.txt").exists());
    let heard = run_with_verdict(&mut session, &exec("ls"), Verdict::Once).await;
    let access = &only_request(&heard).access;
    assert_eq!(access.command, Some(CommandAccess::shell("ls")));
    let cwd = access.cwd.as_ref().unwrap().canonicalize().unwrap();
    assert_eq!(cwd, lab.place.work_dir().canonicalize().unwrap());

    // `/tmp` and `$TMPDIR` are inside the sandbox, wherever these tests run.
    let outside = PathBuf::from(format!("/var/tmp/angelia-outside-{}", Uuid::now_v7()));
    let command = format!("touch {}; echo tried", outside.display());
    let heard = run_with_verdict(&mut session, &exec(&command), Verdict::Once).await;
    only_request(&heard);
    assert!(!outside.exists(), "{heard:#?}");

    let command = format!("touch {}", outside.display());
    let heard = run_with_verdict(&mut session, &exec_escalated(&command), Verdict::Once).await;
    assert_eq!(only_request(&heard).subject.as_deref(), Some(command.as_str()));
    fs::remove_file(outside).unwrap();
    session.close().await;
    lab.close().await;
}
