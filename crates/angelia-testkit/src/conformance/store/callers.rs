//! History notes, the spending of callers, and turns that are parked for a quota.

use angelia_core::{
    model::{EventKind, Outcome, ToolChoice, TurnRecord, TurnState, TurnStatus, Usage},
    ports::{HistoryEntry, Store, StoreError},
};

use super::{
    StoreFixture,
    samples::{create_turn, event, outcome, owned_session, plain_turn, timestamp},
};

fn note(turn: &TurnRecord, hash: u8, seq: u64) -> HistoryEntry {
    HistoryEntry { hash: [hash; 32], session: turn.session, turn: turn.id, seq, at: timestamp(40) }
}

pub async fn a_conversation_is_found_by_what_it_looks_like(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let (first, second) = (plain_turn(lease.session), plain_turn(lease.session));
    for turn in [&first, &second] {
        create_turn(&*store, &lease, turn).await;
    }
    let notes = [note(&first, 1, 4), note(&first, 1, 9), note(&second, 1, 2)];
    for note in &notes {
        note_history(&*store, note).await;
        // Recording a note twice stores it once.
        note_history(&*store, note).await;
    }
    note_history(&*store, &note(&second, 2, 7)).await;
    let newest_first: Vec<_> = notes.iter().rev().cloned().collect();
    assert_eq!(store.find_by_history([1; 32], 9).await.unwrap(), newest_first);
    let one = store.find_by_history([1; 32], 1).await.unwrap();
    assert_eq!(one, newest_first[..1]);
    assert_eq!(store.find_by_history([3; 32], 9).await.unwrap(), []);
    // The notes are deleted with their session.
    store.release_lease(lease.clone()).await.unwrap();
    store.delete_session(lease.session).await.unwrap();
    assert_eq!(store.find_by_history([1; 32], 9).await.unwrap(), []);
}

pub async fn a_history_belongs_to_a_turn(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let note = note(&plain_turn(lease.session), 1, 1);
    let missing = store.index_history(&note).await.unwrap().await;
    assert!(matches!(missing, Err(StoreError::NotFound("turn"))), "{missing:?}");
}

pub async fn a_tool_choice_is_kept(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let named = ToolChoice::Named("tool:search".into());
    for choice in [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required, named] {
        let mut turn = plain_turn(lease.session);
        turn.options.tool_choice = choice;
        create_turn(&*store, &lease, &turn).await;
        assert_eq!(store.turn(turn.id).await.unwrap().unwrap().options, turn.options);
    }
}

pub async fn what_callers_have_spent_adds_up(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let paid = async |caller: Option<&str>, charged_to: Option<&str>, created_at, cost_usd| {
        let mut turn = plain_turn(lease.session);
        turn.options.caller = caller.map(Into::into);
        turn.options.charged_to = charged_to.map(Into::into);
        turn.options.max_cost_usd = cost_usd;
        turn.created_at = timestamp(created_at);
        create_turn(&*store, &lease, &turn).await;
        let stored = store.turn(turn.id).await.unwrap().unwrap();
        assert_eq!(stored.options, turn.options);
        let usage = Usage { cost_usd, ..Usage::default() };
        let outcome = Outcome { usage, ..outcome(TurnStatus::Completed) };
        let last = event(&turn, 1, EventKind::Finished(outcome));
        let append = store.append(&lease, vec![last]).await.unwrap();
        append.await.unwrap();
    };
    paid(Some("a"), None, 10, Some(0.5)).await;
    paid(Some("a"), None, 20, Some(0.25)).await;
    paid(Some("a"), None, 21, None).await;
    paid(Some("b"), None, 20, Some(8.0)).await;
    paid(None, None, 20, Some(16.0)).await;
    // Delegated by a session whose turn is paid for by `a`, and by the bus without a caller.
    paid(Some("session"), Some("a"), 30, Some(2.0)).await;
    paid(None, Some("a"), 31, Some(4.0)).await;
    for (caller, since, expected) in [
        ("a", 0, 6.75),
        ("a", 20, 6.25),
        ("a", 31, 4.0),
        ("a", 32, 0.0),
        ("session", 0, 2.0),
        ("b", 0, 8.0),
        ("nobody", 0, 0.0),
    ] {
        let spent = store.cost_since(caller, timestamp(since)).await.unwrap();
        assert!((spent - expected).abs() < 1e-9, "{caller} {since}: {spent}");
    }
}

pub async fn parked_turns_are_kept_and_not_lost(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, other) = (owned_session(&*store).await, owned_session(&*store).await);
    let mut parked = plain_turn(lease.session);
    parked.options.can_park = true;
    create_turn(&*store, &lease, &parked).await;
    parked.state = TurnState::Parked { resumes_at: timestamp(90) };
    let set = store.set_turn_state(&lease, parked.id, &parked.state);
    set.await.unwrap();
    let mut elsewhere = plain_turn(other.session);
    elsewhere.state = TurnState::Parked { resumes_at: timestamp(91) };
    create_turn(&*store, &other, &elsewhere).await;
    let ids = |turns: Vec<TurnRecord>| turns.iter().map(|turn| turn.id).collect::<Vec<_>>();
    for lease in [&lease, &other] {
        store.release_lease(lease.clone()).await.unwrap();
    }
    let all = store.resumable_turns(None).await.unwrap();
    assert_eq!(all[0].state, parked.state);
    assert_eq!(all[0].options, parked.options);
    assert_eq!(ids(all), [parked.id, elsewhere.id]);
    let one = store.resumable_turns(Some(other.session)).await.unwrap();
    assert_eq!(ids(one), [elsewhere.id]);
    assert!(store.lost_turns().await.unwrap().is_empty());
    // A turn that runs again is no longer parked, so it can be lost again.
    let lease = store.acquire_lease(lease.session).await.unwrap();
    let set = store.set_turn_state(&lease, parked.id, &TurnState::Running);
    set.await.unwrap();
    let parked_now = store.resumable_turns(Some(lease.session)).await.unwrap();
    assert!(parked_now.is_empty());
    store.release_lease(lease).await.unwrap();
    assert_eq!(ids(store.lost_turns().await.unwrap()), [parked.id]);
}

pub async fn turns_that_were_handed_over_are_kept_and_not_lost(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let (mut left, queued) = (plain_turn(lease.session), plain_turn(lease.session));
    for turn in [&left, &queued] {
        create_turn(&*store, &lease, turn).await;
    }
    left.state = TurnState::HandedOver;
    store.set_turn_state(&lease, left.id, &left.state).await.unwrap();
    store.release_lease(lease.clone()).await.unwrap();
    let ids = |turns: Vec<TurnRecord>| turns.iter().map(|turn| turn.id).collect::<Vec<_>>();
    assert_eq!(store.turn(left.id).await.unwrap().unwrap().state, TurnState::HandedOver);
    assert_eq!(ids(store.resumable_turns(None).await.unwrap()), [left.id]);
    assert_eq!(ids(store.lost_turns().await.unwrap()), [queued.id]);
    // Once it runs, it can be lost like any other.
    let lease = store.acquire_lease(lease.session).await.unwrap();
    store.set_turn_state(&lease, left.id, &TurnState::Running).await.unwrap();
    store.release_lease(lease).await.unwrap();
    assert!(store.resumable_turns(None).await.unwrap().is_empty());
    assert_eq!(ids(store.lost_turns().await.unwrap()), [left.id, queued.id]);
}

/// Records a history note and waits until it is committed.
async fn note_history(store: &dyn Store, note: &HistoryEntry) {
    store.index_history(note).await.unwrap().await.unwrap();
}
