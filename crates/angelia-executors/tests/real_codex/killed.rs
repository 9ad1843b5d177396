//! The process is killed in the middle of a turn: the turn fails and keeps its text so far, the
//! next turn works in a new process, and nothing is left of the old one.

use std::collections::BTreeSet;

use angelia_core::{
    model::{EventKind, FailureKind, NativeSessionId, Verdict},
    ports::AgentEvent,
};
use angelia_testkit::direct_session::{DirectSession, TurnOutput};

use crate::harness::{CodexHarness, add_file, exec, exec_escalated, wait_for, wait_until};

/// Asserts the turn's outcome, and that the next turn works.
async fn assert_recovers(
    lab: &CodexHarness,
    mut session: DirectSession,
    heard: &TurnOutput,
    native: &NativeSessionId,
) {
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Agent, "{heard:#?}");
    assert!(failure.message.contains("ended in the middle"), "{failure:?}");
    assert!(failure.hint.as_deref().unwrap().contains("executor"), "{failure:?}");
    assert!(!session.agent.is_usable());
    session.close().await;
    assert_eq!(lab.processes(), BTreeSet::new(), "no orphan");

    let mut session = lab.resume(&lab.unattended(), native).await;
    let heard = session.prompt("ECHO:going on").await;
    assert_eq!(heard.answer(), "going on");
    assert!(heard.started().resumed);
    assert!(lab.last_request().to_string().contains("said before"));
    session.close().await;
    lab.close().await;
}

async fn open_with_history(lab: &CodexHarness, asking: bool) -> (DirectSession, NativeSessionId) {
    let spec = if asking { lab.spec() } else { lab.unattended() };
    let mut session = lab.open(&spec).await;
    let native = session.prompt("ECHO:said before").await.native_session_id();
    (session, native)
}

#[tokio::test]
async fn real_killed_during_a_sandboxed_command() {
    let lab = CodexHarness::new();
    let (mut session, native) = open_with_history(&lab, false).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    let heard = {
        let turn = session.prompt(&command);
        let killing = async {
            wait_until("it does not run", || running.exists()).await;
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    // The command may run before Codex reports it.
    assert!(heard.tool_results().iter().all(|result| !result.ok), "{heard:#?}");
    assert_recovers(&lab, session, &heard, &native).await;
    let left: Vec<_> = lab.place.work_dir().read_dir().unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn real_killed_during_a_command_that_has_escaped() {
    let lab = CodexHarness::new();
    let (mut session, native) = open_with_history(&lab, false).await;
    let running = lab.path("running");
    let command = format!("setsid sh -c 'touch {}; exec sleep 60'", running.display());
    let command = exec_escalated(&command);
    let heard = {
        let turn = session.prompt_watched(&command, |emitted, hands| {
            if let AgentEvent::ApprovalRequest(request) = emitted {
                hands.decide(request, Verdict::Once);
            }
        });
        let killing = async {
            wait_until("it does not run", || running.exists()).await;
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    assert_recovers(&lab, session, &heard, &native).await;
}

#[tokio::test]
async fn real_killed_during_a_patch() {
    let lab = CodexHarness::new();
    let (mut session, native) = open_with_history(&lab, false).await;
    // The patch is applied, and then the model is slow.
    let prompt = add_file("a.txt", "hello").replace("ECHO:done", "WORDS:2000:20");
    let file = lab.path("a.txt");
    let heard = {
        let turn = session.prompt(&prompt);
        let killing = async {
            wait_until("it is not applied", || file.exists()).await;
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    assert_eq!(heard.tool_calls().len(), 1, "{heard:#?}");
    assert_eq!(heard.tool_results().len(), 1, "{heard:#?}");
    assert_recovers(&lab, session, &heard, &native).await;
}

#[tokio::test]
async fn real_killed_while_it_waits_for_an_answer() {
    for prompt in [exec("mkdir never"), add_file("never", "x")] {
        let lab = CodexHarness::new();
        let (mut session, native) = open_with_history(&lab, true).await;
        let (asked, mut was_asked) = tokio::sync::mpsc::channel(1);
        let heard = {
            let turn = session.prompt_watched(&prompt, move |emitted, _| {
                if let AgentEvent::ApprovalRequest(_) = emitted {
                    asked.try_send(()).unwrap();
                }
            });
            let killing = async {
                was_asked.recv().await.unwrap();
                lab.kill_servers();
            };
            tokio::join!(turn, killing).0
        };
        assert!(!heard.tool_results()[0].ok, "{heard:#?}");
        assert!(!lab.path("never").exists());
        assert_recovers(&lab, session, &heard, &native).await;
    }
}

#[tokio::test]
async fn real_killed_while_it_speaks_keeps_what_was_said() {
    let lab = CodexHarness::new();
    let (mut session, native) = open_with_history(&lab, false).await;
    let (spoke, mut has_spoken) = tokio::sync::mpsc::channel(1);
    let heard = {
        let turn = session.prompt_watched("WORDS:2000:20", move |emitted, _| {
            if matches!(emitted, AgentEvent::Event(EventKind::Delta { .. })) {
                let _already = spoke.try_send(());
            }
        });
        let killing = async {
            has_spoken.recv().await.unwrap();
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    assert!(heard.deltas().starts_with("w0"), "{heard:#?}");
    assert_recovers(&lab, session, &heard, &native).await;
}

#[tokio::test]
async fn real_every_thread_of_a_killed_process_hears_of_it() {
    let lab = CodexHarness::new();
    let (mut one, native) = open_with_history(&lab, false).await;
    let (mut two, _) = open_with_history(&lab, false).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    let (heard, other) = {
        let killing = async {
            wait_until("it does not run", || running.exists()).await;
            lab.kill_servers();
        };
        let (heard, other, ()) =
            tokio::join!(one.prompt(&command), two.prompt("HANG_HEADERS"), killing);
        (heard, other)
    };
    assert_eq!(other.failure().kind, FailureKind::Agent);
    two.close().await;
    assert_recovers(&lab, one, &heard, &native).await;
    wait_for(&lab.place.work_dir());
}
