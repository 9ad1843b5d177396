//! Plain turns, streamed turns, turns that are stopped or added to.

use std::time::Duration;

use angelia_core::{
    model::{Content, Status},
    ports::{Emitted, TurnControl},
};

use crate::lab::{Lab, eventually, exec, is_delta, wait_for};

#[tokio::test]
async fn real_a_turn_is_streamed_and_counted() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.spec()).await;
    let heard = session.say("WORDS:30:2").await;
    assert_eq!(heard.text().split_whitespace().count(), 30);
    assert_eq!(heard.deltas().trim(), heard.text().trim());
    assert!(heard.emitted.iter().filter(|one| is_delta(one)).count() > 5);
    let first = heard.usage().clone();
    assert!(first.output_tokens > 0 && first.cache_read_tokens > 0, "{first:?}");
    assert!(heard.notices().is_empty(), "{heard:#?}");

    // A turn's usage is its own, although Codex reports a total.
    let heard = session.say("ECHO:again").await;
    assert_eq!(heard.usage().output_tokens, first.output_tokens);
    assert_eq!(heard.usage().cache_read_tokens, first.cache_read_tokens);
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_two_sessions_share_one_process_and_do_not_wait_for_each_other() {
    let lab = Lab::new();
    let spec = lab.spec();
    let (mut one, mut two) = tokio::join!(lab.open(&spec), lab.open(&spec));
    assert_eq!(lab.servers().len(), 1, "one process for both");
    let slow = one.say_watched("WORDS:2000:20", {
        let mut deltas = 0;
        move |emitted, hands| {
            deltas += usize::from(is_delta(emitted));
            if deltas == 40 {
                hands.cancel.cancel();
            }
        }
    });
    let (slow, fast) = tokio::join!(slow, two.say("WORDS:40:1"));
    assert_eq!(slow.ended.status, Status::Interrupted);
    assert_eq!(fast.text().split_whitespace().count(), 40);
    assert_ne!(slow.native(), fast.native());

    // A session with another folder and another approval level still uses the same process.
    let mut elsewhere = lab.unattended();
    elsewhere.cwd = lab.place.root().join("elsewhere");
    std::fs::create_dir(&elsewhere.cwd).unwrap();
    let mut three = lab.open(&elsewhere).await;
    let heard = three.say(&exec("touch made")).await;
    assert_eq!(heard.text(), "done");
    assert!(elsewhere.cwd.join("made").exists());
    assert_eq!(lab.servers().len(), 1);
    for session in [one, two, three] {
        session.close().await;
    }
    lab.close().await;
}

#[tokio::test]
async fn real_an_interrupt_in_the_middle_of_a_command_leaves_nothing_behind() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.unattended()).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    // The folder in which the sandbox creates its mount points, besides the working directory.
    let temporary = lab.place.root().join("tmp");
    let mount_point = temporary.join(".git");
    let heard = session
        .say_watched(&command, move |emitted, hands| {
            if matches!(emitted, Emitted::Event(angelia_core::model::EventKind::ToolCall(_))) {
                wait_for(&running);
                assert!(mount_point.exists(), "there is something to leave behind");
                hands.cancel.cancel();
            }
        })
        .await;
    assert_eq!(heard.ended.status, Status::Interrupted, "{heard:#?}");
    assert!(!heard.tool_results()[0].ok);
    let left: Vec<_> = lab.place.work().read_dir().unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only what the command made: {left:?}");
    for name in [".git", ".codex", ".agents", ".aws"] {
        assert!(!temporary.join(name).exists(), "{name} is left");
    }
    eventually("the command runs on", || lab.processes() == lab.servers()).await;
    assert!(session.agent.is_usable());
    assert_eq!(session.say("ECHO:on").await.text(), "on");
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_words_reach_a_running_turn() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.spec()).await;
    let mut told = false;
    let heard = session
        .say_watched("WORDS:400:15", move |emitted, hands| {
            if is_delta(emitted) && !told {
                told = true;
                let words = vec![Content::text("ECHO:the late words")];
                hands.tell(TurnControl::Steer(words));
            }
        })
        .await;
    assert!(heard.text().contains("the late words"), "{heard:#?}");
    assert_eq!(session.say("ECHO:next").await.text(), "next");
    session.close().await;
    lab.close().await;
}

#[tokio::test]
async fn real_a_dropped_agent_stops_working() {
    let lab = Lab::new();
    let mut session = lab.open(&lab.unattended()).await;
    let running = lab.path("running");
    let command = exec(&format!("touch {}; exec sleep 60", running.display()));
    let turn = session.say(&command);
    tokio::select! {
        heard = turn => panic!("it should go on: {heard:#?}"),
        () = eventually("the tool does not run", || running.exists()) => {}
    }
    drop(session);
    eventually("the command runs on", || lab.processes() == lab.servers()).await;

    // The process is still usable.
    let mut session = lab.open(&lab.spec()).await;
    assert_eq!(session.say("ECHO:hello").await.text(), "hello");
    assert_eq!(lab.servers().len(), 1);
    tokio::time::timeout(Duration::from_secs(30), session.close()).await.unwrap();
    lab.close().await;
}
