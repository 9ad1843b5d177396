//! Plain turns, streamed turns, turns that are stopped or added to.

use std::time::Duration;

use angelia_core::{
    model::{Content, TurnStatus},
    ports::{AgentEvent, TurnControl},
};

use crate::harness::{CodexHarness, exec, is_delta, wait_for, wait_until};

#[tokio::test]
async fn real_a_turn_is_streamed_and_counted() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.spec()).await;
    let heard = session.prompt("WORDS:30:2").await;
    assert_eq!(heard.answer().split_whitespace().count(), 30);
    assert_eq!(heard.deltas().trim(), heard.answer().trim());
    assert!(heard.agent_events.iter().filter(|one| is_delta(one)).count() > 5);
    let first = heard.usage().clone();
    assert!(first.output_tokens > 0 && first.cache_read_tokens > 0, "{first:?}");
    assert!(heard.notices().is_empty(), "{heard:#?}");

    // A turn's usage is its own, although Codex reports a total.
    let heard = session.prompt("ECHO:again").await;
    assert_eq!(heard.usage().output_tokens, first.output_tokens);
    assert_eq!(heard.usage().cache_read_tokens, first.cache_read_tokens);
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_two_sessions_share_one_process_and_do_not_wait_for_each_other() {
    let lab = CodexHarness::new();
    let spec = lab.spec();
    let (mut one, mut two) = tokio::join!(lab.open(&spec), lab.open(&spec));
    assert_eq!(lab.servers().len(), 1, "one process for both");
    let slow = one.prompt_watched("WORDS:2000:20", {
        let mut deltas = 0;
        move |emitted, hands| {
            deltas += usize::from(is_delta(emitted));
            if deltas == 40 {
                hands.cancel.cancel();
            }
        }
    });
    let (slow, fast) = tokio::join!(slow, two.prompt("WORDS:40:1"));
    assert_eq!(slow.outcome.status, TurnStatus::Interrupted);
    assert_eq!(fast.answer().split_whitespace().count(), 40);
    assert_ne!(slow.native_session_id(), fast.native_session_id());

    // A session with another folder and another approval level still uses the same process.
    let mut elsewhere = lab.unattended();
    elsewhere.cwd = lab.place.root().join("elsewhere");
    std::fs::create_dir(&elsewhere.cwd).unwrap();
    let mut three = lab.open(&elsewhere).await;
    let heard = three.prompt(&exec("touch made")).await;
    assert_eq!(heard.answer(), "done");
    assert!(elsewhere.cwd.join("made").exists());
    assert_eq!(lab.servers().len(), 1);
    for session in [one, two, three] {
        session.close().await;
    }
    lab.close().await;
}

#[tokio::test]
async fn real_an_interrupt_in_the_middle_of_a_command_leaves_nothing_behind() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.unattended()).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    // The folder in which the sandbox creates its mount points, besides the working directory.
    let temporary = lab.place.root().join("tmp");
    let mount_point = temporary.join(".git");
    let heard = session
        .prompt_watched(&command, move |emitted, hands| {
            if matches!(emitted, AgentEvent::Event(angelia_core::model::EventKind::ToolCall(_))) {
                wait_for(&running);
                assert!(mount_point.exists(), "there is something to leave behind");
                hands.cancel.cancel();
            }
        })
        .await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
    assert!(!heard.tool_results()[0].ok);
    let left: Vec<_> = lab.place.work_dir().read_dir().unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only what the command made: {left:?}");
    for name in [".git", ".codex", ".agents", ".aws"] {
        assert!(!temporary.join(name).exists(), "{name} is left");
    }
    wait_until("the command runs on", || lab.processes() == lab.servers()).await;
    assert!(session.agent.is_usable());
    assert_eq!(session.prompt("ECHO:on").await.answer(), "on");
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_words_reach_a_running_turn() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.spec()).await;
    let mut told = false;
    let heard = session
        .prompt_watched("WORDS:400:15", move |emitted, hands| {
            if is_delta(emitted) && !told {
                told = true;
                let words = vec![Content::text("ECHO:the late words")];
                hands.send_control(TurnControl::Steer(words));
            }
        })
        .await;
    assert!(heard.answer().contains("the late words"), "{heard:#?}");
    assert_eq!(session.prompt("ECHO:next").await.answer(), "next");
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_dropped_agent_stops_working() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.unattended()).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    let turn = session.prompt(&command);
    tokio::select! {
        heard = turn => panic!("it should go on: {heard:#?}"),
        () = wait_until("the tool does not run", || running.exists()) => {}
    }
    drop(session);
    wait_until("the command runs on", || lab.processes() == lab.servers()).await;

    // The process is still usable.
    let mut session = lab.open(&lab.spec()).await;
    assert_eq!(session.prompt("ECHO:hello").await.answer(), "hello");
    assert_eq!(lab.servers().len(), 1);
    tokio::time::timeout(Duration::from_secs(30), session.close()).await.unwrap();
    lab.close().await;
}
