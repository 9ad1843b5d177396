//! Recovery from the turns that a killed process left behind.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, EventKind, FailureKind, TextChannel, TurnEvent, TurnId, TurnOptions, TurnOrigin,
        TurnRecord, TurnState,
    },
    ports::{AgentEvent, Page, Store},
};
use tokio::time::sleep;
use uuid::Uuid;

use crate::harness::{EngineHarness, all_events, outcome};

/// Writes the records of a process that dies in the middle of a turn: the lease is released without
/// a `Finished`, as after a death.
async fn leave_unfinished_turn(store: &Arc<dyn Store>, stage: &EngineHarness) -> TurnId {
    let session = stage.session().await;
    let lease = store.acquire_lease(session.id).await.unwrap();
    let turn = TurnId::from_uuid(Uuid::from_u128(7));
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    let record = TurnRecord {
        id: turn,
        session: session.id,
        input: vec![Content::text("work")],
        options: TurnOptions::new(TurnOrigin::Owner),
        created_at: at,
        state: TurnState::Running,
    };
    store.create_turn(&lease, &record.into()).await.unwrap();
    let kind = EventKind::Block { block: 0, channel: TextChannel::Answer, text: "so far".into() };
    let event = TurnEvent { turn, session: session.id, seq: 3, at, kind };
    store.append(&lease, vec![event]).await.unwrap().await.unwrap();
    store.release_lease(lease).await.unwrap();
    turn
}

#[tokio::test(start_paused = true)]
async fn a_lost_turn_is_closed_once_as_failed_with_what_there_was() {
    let stage = EngineHarness::new();
    let turn = leave_unfinished_turn(&stage.store, &stage).await;
    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 1);
    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 0);

    let record = stage.engine.turn(turn).await.unwrap();
    let outcome = record.state.outcome().expect("it has an end");
    assert_eq!(outcome.status.failure().unwrap().kind, FailureKind::Internal);
    assert_eq!(&*outcome.text, "so far");
    // A viewer that has seen deltas that were never stored still gets the end.
    let tail = all_events(stage.engine.watch(turn, 5_000).await.unwrap()).await;
    assert!(matches!(tail.as_slice(), [TurnEvent { kind: EventKind::Finished(_), .. }]));
}

#[tokio::test(start_paused = true)]
async fn an_open_approval_of_a_dead_process_is_declined() {
    let stage = EngineHarness::new();
    let turn = leave_unfinished_turn(&stage.store, &stage).await;
    let record = stage.engine.turn(turn).await.unwrap();
    let lease = stage.store.acquire_lease(record.session).await.unwrap();
    let id = angelia_core::model::ApprovalId::from_uuid(Uuid::from_u128(9));
    let at = record.created_at;
    let kind = EventKind::Approval(angelia_core::model::Approval {
        id,
        kind: angelia_core::model::ApprovalKind::Tool,
        tool_id: None,
        tool_name: "Bash".into(),
        title: "make".into(),
        detail: "in /project".into(),
        diff: None,
        rules: Vec::new(),
        expires_at: at,
    });
    let event = TurnEvent { turn, session: record.session, seq: 4, at, kind };
    stage.store.append(&lease, vec![event]).await.unwrap().await.unwrap();
    stage.store.release_lease(lease).await.unwrap();

    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 1);
    let events = all_events(stage.engine.watch(turn, 4).await.unwrap()).await;
    let [TurnEvent { kind: EventKind::Resolved(resolution), .. }, _end] = events.as_slice() else {
        panic!("expected a resolution and the end, got {events:?}")
    };
    assert_eq!((resolution.id, &*resolution.by), (id, "restart"));
    assert!(!resolution.verdict.allows());
}

fn delta(block: u32, text: &str) -> AgentEvent {
    let channel = TextChannel::Answer;
    AgentEvent::Event(EventKind::Delta { block, channel, text: text.into() })
}

fn blocks(events: &[TurnEvent]) -> Vec<(u32, String)> {
    let blocks = events.iter().filter_map(|event| match &event.kind {
        EventKind::Block { block, text, .. } => Some((*block, text.to_string())),
        _ => None,
    });
    blocks.collect()
}

/// The text of a block that a killed process had shown, but whose block was not complete.
#[tokio::test(start_paused = true)]
async fn text_so_far_survives_the_process() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_answer(0, "complete").await;
    run.emit(vec![delta(1, "a little ")]).await;
    sleep(Duration::from_millis(1100)).await;
    run.emit(vec![delta(1, "more")]).await;
    // Without any further event.
    sleep(Duration::from_millis(1100)).await;
    run.emit(vec![delta(2, &"much ".repeat(1000))]).await;
    // At once, because it is much.
    sleep(Duration::from_millis(1)).await;
    run.emit(vec![delta(2, "lost, because it was shown within the last second")]).await;
    sleep(Duration::from_millis(1)).await;
    let stage = stage.kill(&store).await;

    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 1);
    let much = "much ".repeat(1000);
    let record = stage.engine.turn(submitted.turn).await.unwrap();
    let end = record.state.outcome().unwrap();
    assert_eq!(*end.text, *format!("complete\n\na little more\n\n{much}"));
    let events = all_events(stage.engine.watch(submitted.turn, 0).await.unwrap()).await;
    let expected = [(0, "complete".to_owned()), (1, "a little more".to_owned()), (2, much)];
    assert_eq!(blocks(&events), expected);
    assert!(stage.store.open_text(submitted.turn).await.unwrap().is_empty());
    // The conversation has it too.
    let messages = stage.engine.messages(session).await.unwrap();
    assert_eq!(messages.len(), 2, "{messages:?}");
}

/// A turn that completes its blocks soon writes no text twice.
#[tokio::test(start_paused = true)]
async fn a_short_block_is_not_saved_twice() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    sleep(Duration::from_millis(1)).await;
    let before = store.write_count();
    for block in 0..10 {
        run.emit_answer(block, "short").await;
        sleep(Duration::from_millis(300)).await;
    }
    run.complete("short");
    outcome(submitted.watch).await;
    assert_eq!(store.write_count() - before, 11, "ten blocks and the end");
}

#[tokio::test(start_paused = true)]
async fn a_failed_save_is_repeated() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    store.fail_writes(1, 1, angelia_testkit::unreliable_store::WriteFault::NoSpace);
    for text in ["one ", "two"] {
        run.emit(vec![delta(0, text)]).await;
        sleep(Duration::from_millis(1100)).await;
    }
    let saved = store.open_text(submitted.turn).await.unwrap();
    let saved: String = saved.iter().map(|piece| &*piece.text).collect();
    assert_eq!(saved, "one two");
    drop(run);
}

/// A turn that never reached an agent says so, and one that did says that.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_only_queued_says_so() {
    let (stage, store) = EngineHarness::with_unreliable_store();
    let session = stage.session().await.id;
    let first = stage.submit(session, "one").await;
    let second = stage.submit(session, "two").await;
    let third = stage.submit(session, "three").await;
    stage.control.next_turn().await.complete("1");
    outcome(first.watch).await;
    // The second one was queued and runs now.
    let _running = stage.control.next_turn().await;
    let record = store.turn(second.turn).await.unwrap().unwrap();
    assert_eq!(record.state, TurnState::Running);
    let stage = stage.kill(&store).await;

    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 2);
    let failure = async |turn| {
        let record = stage.engine.turn(turn).await.unwrap();
        record.state.outcome().unwrap().status.failure().unwrap().clone()
    };
    let ran = failure(second.turn).await;
    assert!(ran.message.contains("killed before the turn ended"), "{ran:?}");
    let queued = failure(third.turn).await;
    assert!(queued.message.contains("no agent got it"), "{queued:?}");
    assert_eq!(queued.hint.as_deref(), Some("send the request again"));
}

/// The clock is set back and another process goes on: turns keep their order, and none is lost.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_reorders_nothing() {
    let stage = EngineHarness::new();
    for _ in 0..10 {
        stage.now();
    }
    let session = stage.session().await.id;
    let mut stage = stage;
    let mut turns = Vec::new();
    for text in ["one", "two", "three", "four"] {
        let submitted = stage.submit(session, text).await;
        let run = stage.control.next_turn().await;
        run.emit_answer(0, &format!("answer to {text}")).await;
        run.complete("done");
        outcome(submitted.watch).await;
        turns.push(submitted.turn);
        stage.set_clock_back();
        stage = stage.restart().await;
    }
    assert!(turns.windows(2).any(|pair| pair[1] < pair[0]), "the ids are not in order: {turns:?}");
    let ids = |records: Vec<TurnRecord>| records.iter().map(|turn| turn.id).collect::<Vec<_>>();
    let newest_first: Vec<_> = turns.iter().rev().copied().collect();
    let listed = stage.engine.turns(Some(session), Page::first(9)).await.unwrap();
    assert_eq!(ids(listed), newest_first);
    let (_, newest) = stage.engine.newest_turn(session).await.unwrap().unwrap();
    assert_eq!(newest.id, turns[3]);

    let told = async |session| {
        let messages = stage.engine.messages(session).await.unwrap();
        let text = format!("{messages:?}");
        let mut at = 0;
        for word in ["one", "two", "three", "four"] {
            let found = text[at..].find(&format!("answer to {word}"));
            at += found.unwrap_or_else(|| panic!("{word} is missing or too early: {text}"));
        }
        messages.len()
    };
    assert_eq!(told(session).await, 8);
    let until = stage.engine.messages_until(session, turns[1]).await.unwrap();
    assert_eq!(until.len(), 4);
    // A fork has all turns of its parent, although its own id sorts before theirs.
    stage.set_clock_back();
    let fork = stage.engine.fork_session(session).await.unwrap();
    assert_eq!(told(fork.id).await, 8);
    let record = stage.engine.session(fork.id).await.unwrap();
    assert_eq!(ids(stage.engine.conversation_turns(&record).await.unwrap()), turns);
    // A turn of the parent after the fork does not belong to it.
    let submitted = stage.submit(session, "five").await;
    let run = stage.control.next_turn().await;
    run.emit_answer(0, "later").await;
    run.complete("later");
    outcome(submitted.watch).await;
    assert_eq!(told(fork.id).await, 8);
}
