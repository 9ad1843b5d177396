//! Idempotency: a repeated request gets the turn of the first one.

use angelia_core::{engine::EngineLimits, ports::Page};

use crate::harness::{DEADLINE, ModelApiHarness, ModelApiRequest, assistant, user};

#[tokio::test]
async fn the_same_key_is_the_same_turn_and_another_input_under_it_a_conflict() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]).header("idempotency-key", "k1");
    let first = stage.run_turn(&ask, "done").await;
    let again = stage.send_and_wait(&ask).await;
    assert_eq!((again.turn(), again.content()), (first.turn(), "done".to_owned()));
    let other = ModelApiRequest::new([user("other")]).header("idempotency-key", "k1");
    assert_eq!(stage.send_and_wait(&other).await.status, 409);
    let bad = ModelApiRequest::new([user("x")]).header("idempotency-key", " ");
    assert_eq!(stage.send_and_wait(&bad).await.status, 400);
}

#[tokio::test]
async fn a_request_id_counts_with_its_input() {
    let stage = ModelApiHarness::new();
    let ask =
        |text: &str| ModelApiRequest::new([user(text)]).header("x-client-request-id", "thread-1");
    let first = stage.run_turn(&ask("one"), "done").await;
    assert_eq!(stage.send_and_wait(&ask("one")).await.turn(), first.turn());
    let other = stage.run_turn(&ask("two"), "done").await;
    assert_ne!(other.turn(), first.turn());
}

#[tokio::test]
async fn a_marked_retry_attaches_and_an_unmarked_one_does_not() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]);
    let first = stage.send(&ask.clone().streamed());
    let run = stage.run().await;
    run.emit_answer(0, "so far").await;
    let retry = stage.send(&ask.clone().streamed().header("x-stainless-retry-count", "1"));
    run.emit_answer(1, "and on").await;
    run.complete("so far, and on");
    let (first, retry) = (first.await.unwrap(), retry.await.unwrap());
    assert_eq!(first.turn(), retry.turn());
    // The retry gets the answer from its start.
    assert_eq!(retry.streamed(), "so far\n\nand on");
    let other = stage.run_turn(&ask, "again").await;
    assert_ne!(other.turn(), first.turn());
}

#[tokio::test]
async fn a_marked_retry_finds_its_turn_also_after_a_restart() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]);
    let first = stage.run_turn(&ask, "first").await;
    let stage = stage.restarted();
    let marked = ask.clone().header("x-stainless-retry-count", "1");
    let retry = stage.send_and_wait(&marked).await;
    assert_eq!((retry.turn(), retry.content()), (first.turn(), "first".to_owned()));
    let other = stage.run_turn(&ask, "again").await;
    assert_ne!(other.turn(), first.turn());
}

/// There is no recorded turn that the retry could attach to.
#[tokio::test]
async fn a_marked_retry_of_a_turn_without_a_record_is_run() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]);
    let first = stage.run_turn(&ask, "first").await;
    let engine = &stage.state.engine;
    let turns = engine.turns(None, Page::first(1)).await.unwrap();
    engine.delete_session(turns[0].session).await.unwrap();
    let marked = ask.header("x-stainless-retry-count", "1");
    let retry = stage.run_turn(&marked, "anew").await;
    assert_ne!(retry.turn(), first.turn());
    assert_eq!(retry.content(), "anew");
    assert_eq!(stage.send_and_wait(&marked).await.turn(), retry.turn());
}

#[tokio::test]
async fn a_stream_that_is_asked_for_again_as_a_whole_is_one_turn() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]).header("x-claude-code-session-id", "c1");
    let first = stage.run_turn(&ask.clone().streamed(), "done").await;
    let flipped = stage.send_and_wait(&ask).await;
    assert_eq!((flipped.turn(), flipped.content()), (first.turn(), "done".to_owned()));
    // A client that never streamed starts a new turn.
    let plain = ModelApiRequest::new([user("two")]).header("x-claude-code-session-id", "c1");
    let one = stage.run_turn(&plain, "a").await;
    let two = stage.run_turn(&plain, "b").await;
    assert_ne!(one.turn(), two.turn());
}

#[tokio::test]
async fn who_leaves_a_stream_ends_its_turn_unless_somebody_comes_back() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]).streamed();
    let leaving = stage.send_and_leave(&ask);
    let running = async {
        let run = stage.run().await;
        run.emit_answer(0, "begin").await;
        run
    };
    let ((), run) = tokio::join!(leaving, running);
    tokio::time::timeout(DEADLINE, run.io.cancel.cancelled()).await.unwrap();
    run.complete("interrupted");

    let stage = ModelApiHarness::with_settings(
        |models| models.disconnect_grace = std::time::Duration::from_hours(1),
        EngineLimits::default(),
    );
    let leaving = stage.send_and_leave(&ask);
    let running = async {
        let run = stage.run().await;
        run.emit_answer(0, "begin").await;
        run
    };
    let ((), run) = tokio::join!(leaving, running);
    let back = stage.send(&ask.clone().header("x-stainless-retry-count", "1"));
    run.emit_answer(1, "end").await;
    run.complete("begin end");
    assert_eq!(back.await.unwrap().streamed(), "begin\n\nend");
}

#[tokio::test]
async fn who_does_not_stream_lets_it_finish() {
    let stage = ModelApiHarness::new();
    let ask = ModelApiRequest::new([user("one")]);
    let waiting = stage.send(&ask);
    let run = stage.run().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    run.emit_answer(0, "done").await;
    assert!(!run.io.cancel.is_cancelled());
    run.complete("done");
    let retry = stage.send_and_wait(&ask.header("x-stainless-retry-count", "1")).await;
    assert_eq!(retry.content(), "done");
}

#[tokio::test]
async fn a_busy_named_session_queues_to_its_bound() {
    let limits = EngineLimits { max_queued_turns: 1, ..EngineLimits::default() };
    let stage = ModelApiHarness::with_settings(|_| {}, limits);
    let ask = |text: &str| ModelApiRequest::new([user(text)]).header("x-angelia-session", "chat");
    let first = stage.send(&ask("one"));
    let run = stage.run().await;
    let second = stage.send(&ask("two"));
    // Wait until the second request is queued; otherwise the third could take its place.
    let queued = async {
        loop {
            let page = angelia_core::ports::Page::first(1);
            let turns = stage.state.engine.turns(None, page).await.unwrap();
            if turns[0].state.as_str() == "queued" {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, queued).await.unwrap();
    let third = stage.send_and_wait(&ask("three")).await;
    assert_eq!(third.status, 429, "{third:?}");
    run.complete("1");
    stage.run().await.complete("2");
    assert_eq!(first.await.unwrap().content(), "1");
    assert_eq!(second.await.unwrap().content(), "2");
}

#[tokio::test]
async fn two_requests_with_one_history_never_mix() {
    let stage = ModelApiHarness::new();
    stage.run_turn(&ModelApiRequest::new([user("one")]), "first").await;
    let ask = |text: &str| ModelApiRequest::new([user("one"), assistant("first"), user(text)]);
    let left = stage.send(&ask("left"));
    let left_run = stage.run().await;
    let right = stage.send(&ask("right"));
    let right_run = stage.run().await;
    right_run.complete("R");
    left_run.complete("L");
    let (left, right) = (left.await.unwrap(), right.await.unwrap());
    assert_eq!((left.content(), right.content()), ("L".to_owned(), "R".to_owned()));
    assert_ne!(left.session(), right.session());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_the_same_moment_one_continues_and_the_others_branch() {
    let stage = ModelApiHarness::new();
    let first = stage.run_turn(&ModelApiRequest::new([user("one")]), "first").await;
    let ask = |number: usize| {
        ModelApiRequest::new([user("one"), assistant("first"), user(&number.to_string())])
    };
    let answers: Vec<_> = (0..8).map(|number| stage.send(&ask(number))).collect();
    for _ in 0..8 {
        let run = stage.run().await;
        let text = format!("to {}", crate::harness::input_text(&run));
        run.complete(&text);
    }
    let mut sessions = std::collections::HashSet::new();
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap();
        assert_eq!(answer.content(), format!("to {number}"));
        sessions.insert(answer.session().to_owned());
    }
    assert_eq!(sessions.len(), 8);
    assert!(sessions.contains(first.session()));
}
