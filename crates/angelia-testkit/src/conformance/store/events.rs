//! Events: numbered, ordered, stored byte for byte, with one `Finished` per turn.

use angelia_core::{
    model::{EventKind, Seq, TextChannel},
    ports::{OpenText, Page, StoreError},
};

use super::{
    StoreFixture,
    samples::{
        ODD_JSON, assert_same_debug, create_turn, event, every_event, finished, notice,
        owned_session, plain_turn, raw_json, stored_turn,
    },
};

pub async fn every_event_comes_back_as_it_was(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let events: Vec<_> =
        (1..).zip(every_event()).map(|(seq, kind)| event(&turn, seq, kind)).collect();
    let append = store.append(&lease, events.clone()).await.unwrap();
    append.await.unwrap();
    assert_same_debug(&store.replay(turn.id, 0, 1000).await.unwrap(), &events);
}

pub async fn json_of_the_agent_is_kept_to_the_byte(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let deep = "[".repeat(2000) + &"]".repeat(2000);
    let texts = [ODD_JSON, "1e400", "\"\\ud800\"", "[ ]", " null ", &deep];
    let events = (1..).zip(texts).map(|(seq, text)| {
        let raw = raw_json(text);
        let name = "odd".into();
        event(&turn, seq, EventKind::Native { name, raw })
    });
    let append = store.append(&lease, events.collect()).await.unwrap();
    append.await.unwrap();
    let stored = store.replay(turn.id, 0, 100).await.unwrap();
    assert_eq!(stored.len(), texts.len());
    for (event, text) in stored.iter().zip(texts) {
        let EventKind::Native { raw, .. } = &event.kind else {
            unreachable!("a native event was stored: {event:?}");
        };
        assert_eq!(raw.get(), text.trim());
    }
}

pub async fn events_are_replayed_from_any_number(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    // Numbers have gaps where deltas were.
    let numbers: [Seq; 6] = [1, 2, 5, 6, 300, 70_000];
    for number in numbers {
        let one = vec![event(&turn, number, notice("n"))];
        store.append(&lease, one).await.unwrap().await.unwrap();
    }
    for after in [0, 1, 2, 3, 5, 299, 300, 70_000, u64::MAX] {
        for limit in [0, 1, 2, 100, usize::MAX] {
            let found = store.replay(turn.id, after, limit).await.unwrap();
            let found: Vec<_> = found.iter().map(|event| event.seq).collect();
            let expected: Vec<_> =
                numbers.into_iter().filter(|number| *number > after).take(limit).collect();
            assert_eq!(found, expected, "after {after}, at most {limit}");
        }
    }
    let nothing = store.replay(plain_turn(lease.session).id, 0, 10).await;
    assert!(nothing.unwrap().is_empty());
}

pub async fn deltas_are_passed_over(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let delta = |seq| {
        let kind =
            EventKind::Delta { block: 0, channel: TextChannel::Answer, text: "piece".into() };
        event(&turn, seq, kind)
    };
    let batch = vec![delta(1), event(&turn, 2, notice("n")), delta(3)];
    store.append(&lease, batch).await.unwrap().await.unwrap();
    store.append(&lease, vec![delta(4)]).await.unwrap().await.unwrap();
    let stored = store.replay(turn.id, 0, 10).await.unwrap();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].seq, 2);
}

pub async fn a_number_is_recorded_once(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let first = vec![event(&turn, 1, notice("first"))];
    store.append(&lease, first).await.unwrap().await.unwrap();
    let second = vec![event(&turn, 1, notice("second"))];
    let answer = store.append(&lease, second).await.unwrap().await;
    assert!(matches!(answer, Err(StoreError::DuplicateEvent { seq: 1 })), "{answer:?}");
    let stored = store.replay(turn.id, 0, 10).await.unwrap();
    assert_same_debug(&stored, &[event(&turn, 1, notice("first"))]);
}

pub async fn a_turn_finishes_once(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;

    let turn = plain_turn(lease.session);
    create_turn(&*store, &lease, &turn).await;
    let append = store.append(&lease, vec![event(&turn, 1, finished())]);
    append.await.unwrap().await.unwrap();
    for late in [finished(), notice("late")] {
        let append = store.append(&lease, vec![event(&turn, 2, late)]);
        let answer = append.await.unwrap().await;
        assert!(matches!(answer, Err(StoreError::TurnFinished)), "{answer:?}");
    }
    assert_eq!(store.replay(turn.id, 0, 10).await.unwrap().len(), 1);

    // The same applies within one append, which is then refused as a whole.
    let turn = plain_turn(lease.session);
    create_turn(&*store, &lease, &turn).await;
    let twice = vec![event(&turn, 1, finished()), event(&turn, 2, finished())];
    let answer = store.append(&lease, twice).await.unwrap().await;
    assert!(matches!(answer, Err(StoreError::TurnFinished)), "{answer:?}");
    assert_same_debug(&store.turn(turn.id).await.unwrap(), &Some(turn.clone()));
    assert!(store.replay(turn.id, 0, 10).await.unwrap().is_empty());
}

pub async fn a_refused_append_leaves_nothing(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let good = vec![event(&turn, 1, notice("good"))];
    let bad = vec![event(&turn, 2, notice("new")), event(&turn, 1, notice("again"))];
    let better = vec![event(&turn, 3, notice("better"))];
    // Both appends are queued before either is awaited, so that they may share a transaction.
    let good = store.append(&lease, good).await.unwrap();
    let bad = store.append(&lease, bad).await.unwrap();
    let better = store.append(&lease, better).await.unwrap();
    good.await.unwrap();
    assert!(bad.await.is_err());
    better.await.unwrap();
    let stored = store.replay(turn.id, 0, 10).await.unwrap();
    assert_eq!(stored.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 3]);
}

pub async fn an_append_can_require_earlier_events(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    // Queued together, so that they may share a transaction.
    let first = store.append(&lease, vec![event(&turn, 1, notice("first"))]).await.unwrap();
    let next = vec![event(&turn, 2, notice("next"))];
    let next = store.append_after(&lease, vec![1], next).await.unwrap();
    let end = vec![event(&turn, 5, finished())];
    let early = store.append_after(&lease, vec![2, 4], end.clone()).await.unwrap();
    first.await.unwrap();
    next.await.unwrap();
    let answer = early.await;
    assert!(matches!(answer, Err(StoreError::MissingEvent { seq: 4 })), "{answer:?}");
    store.append_after(&lease, vec![1, 2], end).await.unwrap().await.unwrap();
    let stored = store.replay(turn.id, 0, 10).await.unwrap();
    assert_eq!(stored.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2, 5]);
}

pub async fn events_need_their_turn(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let other = owned_session(&*store).await;
    let unknown = plain_turn(lease.session);
    for (lease, turn) in [(&lease, &unknown), (&other, &turn)] {
        let append = store.append(lease, vec![event(turn, 1, notice("n"))]);
        let answer = append.await.unwrap().await;
        assert!(matches!(answer, Err(StoreError::NotFound("turn"))), "{answer:?}");
    }
    let turns = store.turns(None, Page::first(10)).await.unwrap();
    assert_same_debug(&turns, &[turn]);
}

pub async fn appends_are_committed_in_order(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let mut waiting = Vec::new();
    for seq in 1..=300 {
        let one = vec![event(&turn, seq, notice("n"))];
        waiting.push(store.append(&lease, one).await.unwrap());
    }
    // When the last append is committed, all earlier ones are committed too.
    waiting.pop().unwrap().await.unwrap();
    assert_eq!(store.replay(turn.id, 0, 1000).await.unwrap().len(), 300);
    for committed in waiting {
        committed.await.unwrap();
    }
}

fn piece(block: u32, seq: Seq, text: &str) -> OpenText {
    OpenText { block, channel: TextChannel::Reasoning, seq, text: text.into() }
}

pub async fn text_of_an_open_block_is_kept_until_the_turn_ends(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let (zero, one, two) = (piece(0, 2, "a\u{0}b"), piece(0, 5, "c"), piece(1, 4, "d"));
    let first = vec![zero.clone(), two.clone()];
    store.save_open_text(&lease, turn.id, first).await.unwrap().await.unwrap();
    store.save_open_text(&lease, turn.id, vec![one.clone()]).await.unwrap().await.unwrap();
    assert_eq!(store.open_text(turn.id).await.unwrap(), [zero, one, two]);
    assert!(store.replay(turn.id, 0, 9).await.unwrap().is_empty(), "it is not an event");

    store.append(&lease, vec![event(&turn, 7, finished())]).await.unwrap().await.unwrap();
    assert!(store.open_text(turn.id).await.unwrap().is_empty());
}

pub async fn text_of_an_open_block_needs_the_lease(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    store.acquire_lease(lease.session).await.unwrap();
    let refused =
        store.save_open_text(&lease, turn.id, vec![piece(0, 1, "x")]).await.unwrap().await;
    assert!(matches!(refused, Err(StoreError::LeaseLost)), "{refused:?}");
    assert!(store.open_text(turn.id).await.unwrap().is_empty());
}
