//! Plain turns, streamed turns, turns that are stopped or added to.

use std::time::Duration;

use angelia_core::{
    model::{Content, EventKind, FailureKind, TokenPrice, TurnStatus, Verdict},
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
            if let AgentEvent::ApprovalRequest(request) = emitted {
                hands.decide(request, Verdict::Once);
                let (running, mount_point) = (running.clone(), mount_point.clone());
                let cancel = hands.cancel.clone();
                // The turn must go on meanwhile, for the command to be allowed.
                std::thread::spawn(move || {
                    wait_for(&running);
                    assert!(mount_point.exists(), "there is something to leave behind");
                    cancel.cancel();
                });
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

/// Codex reports tokens only; the price makes a cost of them after every response, so that a limit
/// ends the turn behind the response that exceeded it.
#[tokio::test]
async fn real_a_turn_has_a_cost_and_one_without_a_price_is_refused_under_a_limit() {
    let lab = CodexHarness::new();
    let mut session = lab.open(&lab.unattended()).await;
    let heard = session.prompt(&exec("true")).await;
    let costs: Vec<f64> = heard
        .agent_events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Event(EventKind::Usage(usage)) => usage.cost_usd,
            _ => None,
        })
        .collect();
    assert!(costs.len() >= 3, "one per response, and the last: {costs:?}");
    assert!(costs[0] > 0.0 && costs[0] < costs[1], "{costs:?}");
    let usage = heard.usage();
    let price = TokenPrice { input: 5.0, output: 30.0, cache_read: 0.5, cache_write: 6.25 };
    assert!((usage.cost_usd.unwrap() - price.cost_usd(usage)).abs() < 1e-9, "{usage:?}");
    session.close().await;

    let mut unknown = lab.spec();
    unknown.model = Some("gpt-unheard-of".into());
    unknown.budgets.cost_usd = Some(1.0);
    let mut session = lab.open(&unknown).await;
    let before = lab.server.model_requests().len();
    let heard = session.prompt("ECHO:never").await;
    let failure = heard.outcome.status.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert!(failure.message.contains("gpt-unheard-of"), "{failure:?}");
    assert_eq!(lab.server.model_requests().len(), before, "nothing was asked");
    session.close().await;
    lab.close().await;
}
