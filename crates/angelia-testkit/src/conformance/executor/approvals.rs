//! Approval requests that block an agent, and the effect of every verdict.

use angelia_core::model::{ApprovalKind, ToolClass, TurnStatus, Verdict};

use super::{
    ExecutorFixture,
    session::{AgentSession, open},
};
use crate::turn_output::TurnOutput;

pub async fn every_verdict_does_what_it_says(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;

    let heard = run_with_verdict(fixture, &mut session, "made-once", Verdict::Once).await;
    assert!(!heard.answer_or_blocks().is_empty());
    assert_asked(&heard, "mkdir made-once");
    assert!(has_successful_result(&heard), "{heard:#?}");
    assert_made(fixture, "made-once", true);

    let heard = run_with_verdict(fixture, &mut session, "made-never", Verdict::Deny).await;
    assert!(!heard.answer_or_blocks().is_empty(), "it goes on without it");
    assert_asked(&heard, "mkdir made-never");
    assert!(!has_successful_result(&heard), "{heard:#?}");
    assert_made(fixture, "made-never", false);

    // `Once` applies to one call, so the same command needs another approval.
    let heard = run_with_verdict(fixture, &mut session, "made-once", Verdict::Deny).await;
    assert_asked(&heard, "mkdir made-once");

    let heard = run_with_verdict(fixture, &mut session, "made-for-good", Verdict::Session).await;
    assert!(!heard.answer_or_blocks().is_empty());
    assert_made(fixture, "made-for-good", true);

    let heard = run_with_verdict(fixture, &mut session, "made-too-late", Verdict::Stop).await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
    assert_made(fixture, "made-too-late", false);

    assert!(session.is_usable());
    let heard = session.prompt(fixture.say_prompt("and on")).await;
    assert!(heard.answer_or_blocks().contains("and on"));
    assert!(heard.approval_requests().is_empty(), "nothing is left: {heard:#?}");
    session.close().await;
}

async fn run_with_verdict(
    fixture: &impl ExecutorFixture,
    session: &mut AgentSession,
    folder: &str,
    verdict: Verdict,
) -> TurnOutput {
    let prompt = fixture.approval_prompt(&format!("mkdir {folder}"));
    session.prompt_with_verdict(prompt, verdict).await
}

/// Asserts that there was one approval request for this command, belonging to a tool call that was
/// shown.
fn assert_asked(heard: &TurnOutput, command: &str) {
    let asked = heard.approval_requests();
    assert_eq!(asked.len(), 1, "{heard:#?}");
    let request = asked[0];
    assert_eq!(request.kind, ApprovalKind::Tool);
    assert_eq!(request.class, ToolClass::Execute);
    assert_eq!(request.subject.as_deref(), Some(command), "{request:#?}");
    assert!(request.title.contains(command) || request.detail.contains(command));
    assert!(!request.title.contains('\n'), "one line: {request:#?}");
    let called = heard.tool_calls()[0];
    assert_eq!(request.tool_id.as_ref(), Some(&called.id));
    assert_eq!(called.class, ToolClass::Execute);
}

fn has_successful_result(heard: &TurnOutput) -> bool {
    heard.tool_results().iter().any(|result| result.ok)
}

fn assert_made(fixture: &impl ExecutorFixture, folder: &str, made: bool) {
    if fixture.executes_commands() {
        let path = fixture.spec().cwd.join(folder);
        assert_eq!(path.is_dir(), made, "{}", path.display());
    }
}
