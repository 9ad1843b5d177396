//! A store that fails for a while during a turn.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EngineError, SubmittedTurn},
    model::{
        Decision, EventKind, NativeSessionId, SessionId, ToolCall, ToolClass, ToolId, ToolResult,
        TurnEvent, TurnId, TurnState, TurnStatus, Verdict,
    },
    ports::{AgentEvent, AgentOutcome, ApprovalFilter, Page, Store, TurnControl},
};
use angelia_testkit::{
    manual_executor::ManualTurn,
    unreliable_store::{UnreliableStore, WriteFault},
};
use tokio::time::sleep;

use crate::{
    approvals::approval_request,
    harness::{EngineHarness, all_events, outcome},
};

/// Longer than any pause between two attempts to write.
const LONG_ENOUGH: Duration = Duration::from_secs(30);

/// Numbers that no viewer has seen are used again after a failure. The events of the failed write
/// must not come back under the same numbers, or the end of the turn would be refused.
#[tokio::test(start_paused = true)]
async fn a_failed_write_does_not_take_the_number_of_the_end() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let first = stage.submit(session, "one").await;
    stage.control.next_turn().await.complete("1");
    outcome(first.watch).await;

    let submitted = stage.submit(session, "two").await;
    let run = stage.control.next_turn().await;
    store.set_failing(true);
    run.emit(vec![approval_request("q1")]).await;
    run.io.cancel.cancelled().await;
    store.set_failing(false);
    run.end(interrupted());
    let ended = outcome(submitted.watch).await;
    assert!(matches!(ended.status, TurnStatus::Failed(_)), "{ended:?}");
    let record = stage.engine.turn(submitted.turn).await.unwrap();
    assert!(matches!(record.state, TurnState::Finished { .. }), "{record:?}");
    let stored = store.replay(submitted.turn, 0, 9).await.unwrap();
    assert!(
        matches!(&stored[..], [end] if matches!(end.kind, EventKind::Finished(_))),
        "{stored:?}"
    );
}

fn interrupted() -> AgentOutcome {
    AgentOutcome { status: TurnStatus::Interrupted, text: None, reason: "interrupted".into() }
}

fn tool_call(id: &str) -> AgentEvent {
    AgentEvent::Event(EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        name: "Bash".into(),
        class: ToolClass::Execute,
        input: serde_json::value::RawValue::from_string("{}".to_owned()).unwrap().into(),
        title: "ls".into(),
        parent: None,
    }))
}

fn tool_result(id: &str) -> AgentEvent {
    let result = ToolResult::new(ToolId::new(id), true, "done");
    AgentEvent::Event(EventKind::ToolResult(result))
}

/// Plays an agent that uses every kind of write of a turn, and that obeys when it is stopped.
async fn play(stage: &EngineHarness, mut run: ManualTurn) {
    run.emit_started().await;
    run.emit_answer(0, "first").await;
    run.emit(vec![tool_call("t1")]).await;
    run.emit(vec![tool_result("t1")]).await;
    run.emit(vec![tool_call("t2")]).await;
    run.emit(vec![approval_request("q1")]).await;
    loop {
        if run.io.cancel.is_cancelled() {
            return run.end(interrupted());
        }
        if let Ok(TurnControl::Decide { decision, .. }) = run.io.control.try_recv() {
            assert!(decision.verdict.allows());
            break;
        }
        let pending =
            stage.engine.approvals(ApprovalFilter::Pending, Page::first(9)).await.unwrap();
        for asked in pending {
            let allow = Decision::new(Verdict::Once, "person");
            // Refused if the store cannot record it.
            let _decided = stage.engine.decide(asked.approval.id, allow).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
    run.emit(vec![tool_result("t2")]).await;
    run.emit_answer(1, "second").await;
    sleep(Duration::from_millis(10)).await;
    if run.io.cancel.is_cancelled() {
        return run.end(interrupted());
    }
    run.complete("second");
}

/// Runs a turn and another one that waits in the queue. Returns those that were accepted.
async fn run_two_turns(stage: &EngineHarness, session: SessionId) -> Vec<SubmittedTurn> {
    let mut submitted = Vec::new();
    for text in ["one", "two"] {
        let input = vec![angelia_core::model::Content::text(text)];
        match stage.engine.submit(session, input, crate::harness::options()).await {
            Ok(turn) => submitted.push(turn),
            Err(EngineError::Store(error)) => assert!(error.is_temporary(), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
    submitted
}

/// Everything that must hold for a turn whose end a viewer has seen: the record says the same,
/// before and after the store has recovered.
async fn check_end(
    stage: &EngineHarness,
    store: &UnreliableStore,
    turn: TurnId,
    shown: &[TurnEvent],
) {
    let Some(TurnEvent { at, kind: EventKind::Finished(end), .. }) = shown.last() else {
        panic!("no end was shown: {shown:?}");
    };
    let finished = TurnState::Finished { at: *at, outcome: end.clone() };
    let meanwhile = stage.engine.turn(turn).await.unwrap();
    assert_eq!(meanwhile.state, finished, "GET before the store recovers");
    let listed = stage.engine.turns(None, Page::first(9)).await.unwrap();
    assert!(listed.iter().any(|known| known.id == turn && known.state == finished), "{listed:?}");
    assert_eq!(
        format!("{:?}", all_events(stage.engine.watch(turn, 0).await.unwrap()).await),
        format!("{shown:?}"),
        "a viewer who comes late"
    );
    store.heal();
    sleep(LONG_ENOUGH).await;
    assert_eq!(store.turn(turn).await.unwrap().unwrap().state, finished, "the record");
    let recorded = store.replay(turn, 0, 1000).await.unwrap();
    let kept: Vec<_> = shown.iter().filter(|event| event.kind.is_stored()).collect();
    assert_eq!(format!("{recorded:?}"), format!("{kept:?}"), "all that was shown is recorded");
}

/// Runs the turns with the faults, and checks them before and after a restart. Returns the number of
/// writes.
async fn run_with_faults(first: usize, count: usize, fault: WriteFault) -> usize {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let before = store.write_count();
    store.fail_writes(first, count, fault);
    let submitted = tokio::select! {
        submitted = run_two_turns(&stage, session) => submitted,
        () = sleep(LONG_ENOUGH) => panic!("submitting hangs"),
    };
    let plays = async {
        loop {
            let run = stage.control.next_turn().await;
            play(&stage, run).await;
        }
    };
    let mut turns = Vec::new();
    let ends = async {
        for one in submitted {
            turns.push((one.turn, all_events(one.watch).await));
        }
    };
    tokio::select! {
        () = plays => {}
        () = ends => {}
        () = sleep(10 * LONG_ENOUGH) => panic!("a turn has no end"),
    }
    let writes = store.write_count() - before;
    for (turn, shown) in &turns {
        check_end(&stage, &store, *turn, shown).await;
    }
    store.heal();
    let expected: Vec<_> = turns.iter().map(|(id, _)| *id).collect();
    let mut states = Vec::new();
    for id in &expected {
        states.push(stage.engine.turn(*id).await.unwrap().state);
    }
    let stage = stage.restart().await;
    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 0, "no turn is open");
    for (id, state) in expected.iter().zip(states) {
        assert_eq!(stage.engine.turn(*id).await.unwrap().state, state, "after a restart");
    }
    let all = stage.engine.turns(Some(session), Page::first(9)).await.unwrap();
    assert_eq!(all.len(), expected.len(), "no turn that nobody was told of: {all:?}");
    writes
}

/// The gate: every single write of two turns fails in every way, once or from then on until the
/// turns have ended. Whatever fails, a turn that was accepted has exactly one end.
#[tokio::test(start_paused = true)]
async fn whichever_write_fails_the_end_is_recorded_as_it_was_shown() {
    let writes = run_with_faults(usize::MAX / 2, 0, WriteFault::NoSpace).await;
    assert!(writes > 12, "{writes} writes: the turn does not use every kind");
    for fault in WriteFault::ALL {
        for first in 1..=writes {
            for count in [1, 2, 3, usize::MAX / 2] {
                eprintln!("{fault:?}: {count} writes from number {first}");
                run_with_faults(first, count, fault).await;
            }
        }
    }
}

/// A fault that is over after a quarter of a second does not stop the agent, and nothing is missing.
#[tokio::test(start_paused = true)]
async fn a_short_disturbance_changes_nothing() {
    for first in 3..=8 {
        let (stage, store) = EngineHarness::with_unreliable_store();
        let session = stage.session().await.id;
        store.fail_writes(first, 1, WriteFault::InputOutput);
        let submitted = stage.submit(session, "one").await;
        let run = stage.control.next_turn().await;
        let (end, ()) = tokio::join!(outcome(submitted.watch), play(&stage, run));
        assert_eq!(end.status, TurnStatus::Completed, "write {first}");
    }
}

/// While an end is unwritten, another turn is refused, and the session's lease is not given up.
#[tokio::test(start_paused = true)]
async fn the_next_turn_waits_for_the_end_before_it() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    store.fail_writes(1, usize::MAX / 2, WriteFault::NoSpace);
    run.complete("1");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
    // Longer than an idle actor lives.
    sleep(Duration::from_hours(1)).await;
    let input = vec![angelia_core::model::Content::text("two")];
    let refused = stage.engine.submit(session, input, crate::harness::options()).await;
    assert!(matches!(refused, Err(EngineError::Store(_))), "{refused:?}");
    store.heal();
    let second = stage.submit(session, "two").await;
    let first = store.turn(submitted.turn).await.unwrap().unwrap();
    assert_eq!(first.state.outcome().unwrap().status, TurnStatus::Completed);
    stage.control.next_turn().await.complete("2");
    outcome(second.watch).await;
}

/// The agent's own session id is not forgotten when it cannot be stored at once.
#[tokio::test(start_paused = true)]
async fn the_agents_session_is_stored_later() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    store.fail_writes(1, 1, WriteFault::NoSpace);
    run.emit_started().await;
    run.emit_answer(0, "1").await;
    run.complete("1");
    outcome(submitted.watch).await;
    let stored = store.session(session).await.unwrap().unwrap();
    assert_eq!(stored.native.as_ref().map(NativeSessionId::as_str), Some("native-1"));
}

/// A shutdown during a full disk still writes the end, without its text if that is what fits.
#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_a_small_end() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    store.refuse_texts_over(1000, WriteFault::NoSpace);
    run.complete(&"x".repeat(5000));
    let shown = outcome(submitted.watch).await;
    assert_eq!((shown.status, shown.text.len()), (TurnStatus::Completed, 5000));
    let stage = stage.restart().await;
    let end = stage.engine.turn(submitted.turn).await.unwrap();
    let end = end.state.outcome().unwrap();
    assert_eq!(end.status, TurnStatus::Completed);
    assert!(end.text.contains("bytes are missing"), "{}", end.text);
}

/// A text that is too big for the store is cut before anybody sees the end.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_too_big_is_cut() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    store.refuse_texts_over(2 << 20, WriteFault::TooBig);
    run.emit_answer(0, &"y".repeat(3 << 20)).await;
    run.complete(&"x".repeat(3 << 20));
    let events = all_events(submitted.watch).await;
    check_end_only(&stage, &store, submitted.turn, &events).await;
}

async fn check_end_only(
    stage: &EngineHarness,
    store: &Arc<UnreliableStore>,
    turn: TurnId,
    shown: &[TurnEvent],
) {
    let Some(EventKind::Finished(end)) = shown.last().map(|event| &event.kind) else {
        panic!("no end");
    };
    assert_eq!(end.status, TurnStatus::Completed);
    assert!(end.text.len() < 2 << 20 && end.text.ends_with("are missing here]"));
    let record = stage.engine.turn(turn).await.unwrap();
    assert_eq!(record.state.outcome(), Some(end));
    let recorded = store.replay(turn, 0, 9).await.unwrap();
    let ends = recorded.iter().filter(|event| matches!(event.kind, EventKind::Finished(_)));
    assert_eq!(ends.count(), 1);
}
