//! The lifecycle of turns and agents: one turn at a time, queued, interrupted, resumed, retired,
//! panicking.

use std::time::Duration;

use angelia_core::{
    engine::{EngineError, EngineLimits},
    model::{
        Content, EventKind, Failure, FailureKind, Notice, NoticeLevel, SessionSpec, TurnState,
        TurnStatus,
    },
    ports::{AgentEvent, AgentOutcome, Page, StoreError},
};
use tokio::time::Instant;

use crate::harness::{EngineHarness, all_events, options, outcome};

#[tokio::test(start_paused = true)]
async fn one_agent_serves_many_turns_and_learns_the_model_once() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    for text in ["one", "two", "three"] {
        let submitted = stage.submit(session.id, text).await;
        assert!(submitted.running);
        let run = stage.control.next_turn().await;
        run.emit_started().await;
        run.emit_answer(0, text).await;
        run.complete(text);
        let outcome = outcome(submitted.watch).await;
        assert_eq!(outcome.status, TurnStatus::Completed);
        assert_eq!(&*outcome.text, text);
    }
    assert_eq!(stage.control.opened_agents(), 1);
    let kept = stage.engine.session(session.id).await.unwrap();
    assert_eq!(kept.spec.model.as_deref(), Some("wood"));
    assert_eq!(kept.native.unwrap().as_str(), "native-1");
}

/// A turn is recorded before its agent hears of it. If that fails, the client is told, and the agent
/// is closed, because this process no longer owns the session.
#[tokio::test(start_paused = true)]
async fn a_hot_turn_that_cannot_be_recorded_is_refused_and_stopped() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let first = stage.submit(session.id, "one").await;
    stage.control.next_turn().await.complete("1");
    outcome(first.watch).await;
    // Another process acquires the session, so our session actor loses its lease.
    let theirs = stage.store.acquire_lease(session.id).await.unwrap();

    let input = vec![Content::text("two")];
    let refused = stage.engine.submit(session.id, input, options()).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::LeaseLost))), "{refused:?}");
    while stage.control.closed_agents() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let turns = stage.engine.turns(None, Page::first(9)).await.unwrap();
    assert_eq!(turns.len(), 1, "{turns:?}");

    // The session is ours again, with a new agent.
    stage.store.release_lease(theirs).await.unwrap();
    let third = stage.submit(session.id, "three").await;
    loop {
        let run = stage.control.next_turn().await;
        if !run.is_abandoned() {
            run.complete("3");
            break;
        }
    }
    assert_eq!(&*outcome(third.watch).await.text, "3");
    assert_eq!(stage.control.opened_agents(), 2);
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_session_wait_for_each_other_up_to_the_bound() {
    let limits = EngineLimits { max_queued_turns: 2, ..EngineLimits::default() };
    let stage = EngineHarness::with_limits(limits);
    let session = stage.session().await;
    let first = stage.submit(session.id, "first").await;
    let run = stage.control.next_turn().await;
    let second = stage.submit(session.id, "second").await;
    let third = stage.submit(session.id, "third").await;
    assert!(first.running && !second.running && !third.running);
    let refused = stage.engine.submit(session.id, vec![Content::text("x")], options()).await;
    assert!(matches!(refused, Err(EngineError::QueueFull { limit: 2 })));
    assert_eq!(stage.engine.turn(second.turn).await.unwrap().state, TurnState::Queued);

    run.complete("1");
    stage.control.next_turn().await.complete("2");
    stage.control.next_turn().await.complete("3");
    for (submitted, text) in [(first, "1"), (second, "2"), (third, "3")] {
        assert_eq!(&*outcome(submitted.watch).await.text, text);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_asks_the_agent_and_keeps_what_was_said() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "talk").await;
    let run = stage.control.next_turn().await;
    run.emit_answer(0, "half").await;
    stage.engine.interrupt(submitted.turn, false).await.unwrap();
    run.io.cancel.cancelled().await;
    run.end(AgentOutcome {
        status: TurnStatus::Interrupted,
        text: None,
        reason: "interrupted".into(),
    });
    let outcome = outcome(submitted.watch).await;
    assert_eq!(outcome.status, TurnStatus::Interrupted);
    assert_eq!(&*outcome.text, "half");
    assert_eq!(stage.control.closed_agents(), 0, "the process takes the next turn");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ignores_the_interrupt_is_ended() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "hang").await;
    let run = stage.control.next_turn().await;
    stage.engine.interrupt(submitted.turn, false).await.unwrap();
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Interrupted);
    assert_eq!(stage.control.closed_agents(), 1);
    drop(run);

    let next = stage.submit(session.id, "again").await;
    let run = stage.control.next_turn().await;
    run.complete("fresh");
    assert_eq!(&*outcome(next.watch).await.text, "fresh");
    assert_eq!(stage.control.opened_agents(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kill_does_not_wait() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "hang").await;
    let _run = stage.control.next_turn().await;
    let before = tokio::time::Instant::now();
    stage.engine.interrupt(submitted.turn, true).await.unwrap();
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Interrupted);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_is_interrupted_without_running() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let first = stage.submit(session.id, "first").await;
    let run = stage.control.next_turn().await;
    let second = stage.submit(session.id, "second").await;
    stage.engine.interrupt(second.turn, false).await.unwrap();
    let ended = outcome(second.watch).await;
    assert_eq!(ended.status, TurnStatus::Interrupted);
    assert_eq!(&*ended.reason, "interrupted before it started");
    run.complete("1");
    outcome(first.watch).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_driver_is_an_outcome_and_the_next_turn_works() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "boom").await;
    let run = stage.control.next_turn().await;
    run.emit_answer(0, "before").await;
    run.panic();
    let ended = outcome(submitted.watch).await;
    assert_eq!(ended.status.failure().unwrap().kind, FailureKind::Internal);
    assert_eq!(&*ended.text, "before");

    let next = stage.submit(session.id, "again").await;
    stage.control.next_turn().await.complete("fine");
    assert_eq!(&*outcome(next.watch).await.text, "fine");
}

#[tokio::test(start_paused = true)]
async fn a_retired_agent_is_replaced_and_its_conversation_resumed() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.retire(AgentOutcome::failed(Failure::new(FailureKind::Agent, "it died")));
    assert_eq!(outcome(submitted.watch).await.status.as_str(), "failed");

    let next = stage.submit(session.id, "two").await;
    let run = stage.control.next_turn().await;
    assert_eq!(run.resumed.as_ref().unwrap().as_str(), "native-1");
    run.complete("resumed");
    outcome(next.watch).await;
}

/// A key of the profile, as it stands in what an agent says about its failure.
#[tokio::test(start_paused = true)]
async fn a_value_of_the_profile_is_in_no_failure_and_no_notice() {
    const KEY: &str = "correct-horse-battery";
    let stage = EngineHarness::new();
    let mut spec = SessionSpec::new("puppet", "/project");
    spec.env.insert("SERVICE_LOGIN".into(), KEY.into());
    let session = stage.session_with(spec).await;
    let submitted = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let notice = Notice::new(NoticeLevel::Warning, "retrying", format!("refused {KEY}"));
    run.emit(vec![AgentEvent::Event(EventKind::Notice(notice))]).await;
    let failure = Failure::new(FailureKind::Auth, format!("the key {KEY} is unknown"));
    run.retire(AgentOutcome::failed(failure.with_hint(format!("replace {KEY}"))));
    let shown = all_events(submitted.watch).await;
    let stored = stage.store.replay(submitted.turn, 0, 100).await.unwrap();
    assert_eq!(stored.last().map(|event| event.seq), shown.last().map(|event| event.seq));
    for events in [&shown, &stored] {
        let text = format!("{events:?}");
        assert!(!text.contains(KEY), "{text}");
        assert!(text.contains("the key [redacted] is unknown"), "{text}");
        assert!(text.contains("refused [redacted]"), "{text}");
    }
    let turn = stage.engine.turns(Some(session.id), Page::first(1)).await.unwrap().remove(0);
    assert!(!format!("{turn:?}").contains(KEY));
}

#[tokio::test(start_paused = true)]
async fn an_idle_agent_is_closed_and_its_session_given_up() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.complete("1");
    outcome(submitted.watch).await;
    tokio::time::sleep(EngineLimits::default().idle_ttl + Duration::from_secs(1)).await;
    assert_eq!(stage.control.closed_agents(), 1);

    let next = stage.submit(session.id, "two").await;
    let run = stage.control.next_turn().await;
    assert!(run.resumed.is_some());
    run.complete("2");
    outcome(next.watch).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_slowly_does_not_stall_the_start_of_another() {
    let stage = EngineHarness::new();
    let (slow, other) = (stage.session().await, stage.session().await);
    let submitted = stage.submit(slow.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.complete("1");
    outcome(submitted.watch).await;
    stage.control.set_close_duration(Duration::from_secs(10));
    tokio::time::sleep(EngineLimits::default().idle_ttl + Duration::from_secs(1)).await;

    let began = Instant::now();
    let (again, started) = tokio::join!(
        async {
            let submitted = stage.submit(slow.id, "two").await;
            (submitted, began.elapsed())
        },
        async {
            // The other start is already waiting for the end of the slow session.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let submitted = stage.submit(other.id, "quick").await;
            (submitted, began.elapsed())
        }
    );
    assert!(started.1 < Duration::from_secs(1), "the other session waited {:?}", started.1);
    assert!(again.1 > Duration::from_secs(5), "its own end comes first: {:?}", again.1);
    for _ in 0..2 {
        let run = stage.control.next_turn().await;
        run.complete("done");
    }
    outcome(started.0.watch).await;
    outcome(again.0.watch).await;
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_agent_makes_room() {
    let limits = EngineLimits { max_live_agents: 2, ..EngineLimits::default() };
    let stage = EngineHarness::with_limits(limits);
    let mut sessions = Vec::new();
    for text in ["a", "b", "c"] {
        let session = stage.session().await;
        let submitted = stage.submit(session.id, text).await;
        let run = stage.control.next_turn().await;
        run.emit_started().await;
        run.complete(text);
        outcome(submitted.watch).await;
        sessions.push(session.id);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!((stage.control.opened_agents(), stage.control.closed_agents()), (3, 1));
    // The last two agents are still hot.
    for session in [sessions[1], sessions[2]] {
        let submitted = stage.submit(session, "again").await;
        stage.control.next_turn().await.complete("hot");
        outcome(submitted.watch).await;
    }
    assert_eq!(stage.control.opened_agents(), 3);
}

#[tokio::test(start_paused = true)]
async fn when_every_agent_is_busy_a_new_one_waits_for_room() {
    let limits = EngineLimits { max_live_agents: 1, ..EngineLimits::default() };
    let stage = EngineHarness::with_limits(limits);
    let (a, b) = (stage.session().await, stage.session().await);
    let first = stage.submit(a.id, "a").await;
    let run = stage.control.next_turn().await;
    let second = stage.submit(b.id, "b").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.control.opened_agents(), 1);
    run.complete("a");
    outcome(first.watch).await;
    stage.control.next_turn().await.complete("b");
    assert_eq!(&*outcome(second.watch).await.text, "b");
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_a_conversation_of_its_own() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.complete("1");
    outcome(submitted.watch).await;
    let fork = stage.engine.fork_session(session.id).await.unwrap();
    assert_eq!(fork.forked_from, Some(session.id));
    let submitted = stage.submit(fork.id, "two").await;
    let run = stage.control.next_turn().await;
    assert_eq!(run.resumed.as_ref().unwrap().as_str(), "native-1-fork");
    run.complete("2");
    outcome(submitted.watch).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_every_turn_and_closes_every_agent() {
    let stage = EngineHarness::new();
    let (a, b) = (stage.session().await, stage.session().await);
    let running = stage.submit(a.id, "a").await;
    let obedient = stage.control.next_turn().await;
    let deaf = stage.submit(b.id, "b").await;
    let _deaf_run = stage.control.next_turn().await;
    let waiting = stage.submit(a.id, "waits").await;
    let engine = stage.engine.clone();
    let shutdown = async move { engine.shutdown().await };
    let obey = async move {
        obedient.io.cancel.cancelled().await;
        obedient.end(AgentOutcome {
            status: TurnStatus::Interrupted,
            text: None,
            reason: "stop".into(),
        });
    };
    tokio::join!(shutdown, obey);
    for submitted in [running, deaf, waiting] {
        assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Interrupted);
    }
    assert_eq!(stage.control.opened_agents(), stage.control.closed_agents());
    let refused = stage.engine.submit(a.id, vec![Content::text("x")], options()).await;
    assert!(matches!(refused, Err(EngineError::ShuttingDown)));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_deleted_under_its_running_turn() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "one").await;
    let run = stage.control.next_turn().await;
    let engine = stage.engine.clone();
    let delete = async move { engine.delete_session(session.id).await };
    let obey = async move {
        run.io.cancel.cancelled().await;
        run.end(AgentOutcome {
            status: TurnStatus::Interrupted,
            text: None,
            reason: "stop".into(),
        });
    };
    let (deleted, ()) = tokio::join!(delete, obey);
    deleted.unwrap();
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Interrupted);
    assert!(matches!(stage.engine.session(session.id).await, Err(EngineError::NotFound(_))));
}
