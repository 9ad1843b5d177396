//! The process is killed in the middle of a turn: the turn fails and keeps its text so far, the
//! next turn works in a new process, and nothing is left of the old one.

use std::collections::BTreeSet;

use angelia_core::{
    model::{EventKind, FailureKind, NativeSessionId, Verdict},
    ports::Emitted,
};
use angelia_testkit::by_hand::{Heard, Session};

use crate::lab::{Lab, add_file, escalated, eventually, exec, wait_for};

/// Asserts the turn's outcome, and that the next turn works.
async fn recovered(lab: &Lab, mut session: Session, heard: &Heard, native: &NativeSessionId) {
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Agent, "{heard:#?}");
    assert!(failure.message.contains("ended in the middle"), "{failure:?}");
    assert!(failure.hint.as_deref().unwrap().contains("executor"), "{failure:?}");
    assert!(!session.agent.is_usable());
    session.close().await;
    assert_eq!(lab.processes(), BTreeSet::new(), "no orphan");

    let mut session = lab.resume(&lab.unattended(), native).await;
    let heard = session.say("ECHO:going on").await;
    assert_eq!(heard.text(), "going on");
    assert!(heard.started().resumed);
    assert!(lab.last_request().to_string().contains("said before"));
    session.close().await;
    lab.close().await;
}

async fn begun(lab: &Lab, asking: bool) -> (Session, NativeSessionId) {
    let spec = if asking { lab.spec() } else { lab.unattended() };
    let mut session = lab.open(&spec).await;
    let native = session.say("ECHO:said before").await.native();
    (session, native)
}

#[tokio::test]
async fn real_killed_during_a_sandboxed_command() {
    let lab = Lab::new();
    let (mut session, native) = begun(&lab, false).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    let heard = {
        let turn = session.say(&command);
        let killing = async {
            eventually("it does not run", || running.exists()).await;
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    // The command may run before Codex reports it.
    assert!(heard.tool_results().iter().all(|result| !result.ok), "{heard:#?}");
    recovered(&lab, session, &heard, &native).await;
    let left: Vec<_> = lab.place.work().read_dir().unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn real_killed_during_a_command_that_has_escaped() {
    let lab = Lab::new();
    let (mut session, native) = begun(&lab, false).await;
    let running = lab.path("running");
    let command = format!("setsid sh -c 'touch {}; exec sleep 60'", running.display());
    let command = escalated(&command);
    let heard = {
        let turn = session.say_watched(&command, |emitted, hands| {
            if let Emitted::Ask(request) = emitted {
                hands.decide(request, Verdict::Once);
            }
        });
        let killing = async {
            eventually("it does not run", || running.exists()).await;
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    recovered(&lab, session, &heard, &native).await;
}

#[tokio::test]
async fn real_killed_during_a_patch() {
    let lab = Lab::new();
    let (mut session, native) = begun(&lab, false).await;
    // The patch is applied, and then the model is slow.
    let prompt = add_file("a.txt", "hello").replace("ECHO:done", "WORDS:2000:20");
    let file = lab.path("a.txt");
    let heard = {
        let turn = session.say(&prompt);
        let killing = async {
            eventually("it is not applied", || file.exists()).await;
            lab.kill_servers();
        };
        tokio::join!(turn, killing).0
    };
    assert_eq!(heard.tool_calls().len(), 1, "{heard:#?}");
    assert_eq!(heard.tool_results().len(), 1, "{heard:#?}");
    recovered(&lab, session, &heard, &native).await;
}

#[tokio::test]
async fn real_killed_while_it_waits_for_an_answer() {
    for prompt in [exec("mkdir never"), add_file("never", "x")] {
        let lab = Lab::new();
        let (mut session, native) = begun(&lab, true).await;
        let (asked, mut was_asked) = tokio::sync::mpsc::channel(1);
        let heard = {
            let turn = session.say_watched(&prompt, move |emitted, _| {
                if let Emitted::Ask(_) = emitted {
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
        recovered(&lab, session, &heard, &native).await;
    }
}

#[tokio::test]
async fn real_killed_while_it_speaks_keeps_what_was_said() {
    let lab = Lab::new();
    let (mut session, native) = begun(&lab, false).await;
    let (spoke, mut has_spoken) = tokio::sync::mpsc::channel(1);
    let heard = {
        let turn = session.say_watched("WORDS:2000:20", move |emitted, _| {
            if matches!(emitted, Emitted::Event(EventKind::Delta { .. })) {
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
    recovered(&lab, session, &heard, &native).await;
}

#[tokio::test]
async fn real_every_thread_of_a_killed_process_hears_of_it() {
    let lab = Lab::new();
    let (mut one, native) = begun(&lab, false).await;
    let (mut two, _) = begun(&lab, false).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    let (heard, other) = {
        let killing = async {
            eventually("it does not run", || running.exists()).await;
            lab.kill_servers();
        };
        let (heard, other, ()) = tokio::join!(one.say(&command), two.say("HANG_HEADERS"), killing);
        (heard, other)
    };
    assert_eq!(other.failure().kind, FailureKind::Agent);
    two.close().await;
    recovered(&lab, one, &heard, &native).await;
    wait_for(&lab.place.work());
}
