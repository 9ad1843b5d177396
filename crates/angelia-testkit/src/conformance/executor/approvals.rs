//! Approval requests that block an agent, and the effect of every verdict.

use angelia_core::model::{ApprovalKind, Status, ToolClass, Verdict};

use super::{
    ExecutorFixture,
    heard::Heard,
    session::{Session, open},
};

pub async fn every_verdict_does_what_it_says(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;

    let heard = ask(fixture, &mut session, "made-once", Verdict::Once).await;
    assert!(!heard.answer().is_empty());
    assert_asked(&heard, "mkdir made-once");
    assert!(results(&heard), "{heard:#?}");
    assert_made(fixture, "made-once", true);

    let heard = ask(fixture, &mut session, "made-never", Verdict::Deny).await;
    assert!(!heard.answer().is_empty(), "it goes on without it");
    assert_asked(&heard, "mkdir made-never");
    assert!(!results(&heard), "{heard:#?}");
    assert_made(fixture, "made-never", false);

    // `Once` applies to one call: the same command is asked about again.
    let heard = ask(fixture, &mut session, "made-once", Verdict::Deny).await;
    assert_asked(&heard, "mkdir made-once");

    let heard = ask(fixture, &mut session, "made-for-good", Verdict::Session).await;
    assert!(!heard.answer().is_empty());
    assert_made(fixture, "made-for-good", true);

    let heard = ask(fixture, &mut session, "made-too-late", Verdict::Stop).await;
    assert_eq!(heard.ended.status, Status::Interrupted, "{heard:#?}");
    assert_made(fixture, "made-too-late", false);

    assert!(session.is_usable());
    let heard = session.say(fixture.say("and on")).await;
    assert!(heard.answer().contains("and on"));
    assert!(heard.asked().is_empty(), "nothing is left: {heard:#?}");
    session.close().await;
}

async fn ask(
    fixture: &impl ExecutorFixture,
    session: &mut Session,
    folder: &str,
    verdict: Verdict,
) -> Heard {
    let prompt = fixture.ask(&format!("mkdir {folder}"));
    session.decided(prompt, verdict).await
}

/// Asserts that there was one approval request, about this command, for a tool call that was shown.
fn assert_asked(heard: &Heard, command: &str) {
    let asked = heard.asked();
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

fn results(heard: &Heard) -> bool {
    heard.tool_results().iter().any(|result| result.ok)
}

fn assert_made(fixture: &impl ExecutorFixture, folder: &str, made: bool) {
    if fixture.acts() {
        let path = fixture.spec().cwd.join(folder);
        assert_eq!(path.is_dir(), made, "{}", path.display());
    }
}
