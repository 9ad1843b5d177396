//! Turns: creating, listing, and changing their state.

use angelia_core::{
    model::{TurnId, TurnOrigin, TurnRecord, TurnState},
    ports::{Lease, NewTurn, Page, Store, StoreError},
};
use uuid::Uuid;

use super::{
    StoreFixture,
    samples::{
        assert_same_debug, create_turn, event, every_content, every_status, finished, outcome,
        owned_session, plain_turn, stored_turn, timestamp,
    },
};

pub async fn a_turn_comes_back_as_it_was(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let mut turn = plain_turn(lease.session);
    assert!(store.turn(turn.id).await.unwrap().is_none());
    turn.input = every_content();
    turn.options.origin = TurnOrigin::Remote;
    turn.options.can_ask = false;
    turn.state = TurnState::Running;
    create_turn(&*store, &lease, &turn).await;
    assert_same_debug(&store.turn(turn.id).await.unwrap(), &Some(turn));
}

pub async fn a_turn_is_created_once(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let again = store.create_turn(&lease, &turn.clone().into()).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");

    // A turn cannot be created as finished, because without its event it would have no outcome.
    let mut done = plain_turn(lease.session);
    done.state = TurnState::Finished {
        at: timestamp(0),
        outcome: outcome(angelia_core::model::TurnStatus::Completed),
    };
    assert!(store.create_turn(&lease, &done.clone().into()).await.is_err());
    assert!(store.set_turn_state(&lease, turn.id, &done.state).await.is_err());
    assert_same_debug(&store.turn(turn.id).await.unwrap(), &Some(turn));
}

pub async fn turns_are_paged_newest_first(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let leases = [owned_session(&*store).await, owned_session(&*store).await];
    let mut ids = Vec::new();
    for index in 0..6 {
        let lease = &leases[index % 2];
        let turn = plain_turn(lease.session);
        create_turn(&*store, lease, &turn).await;
        ids.insert(0, turn.id);
    }
    let all = store.turns(None, Page::first(100)).await.unwrap();
    assert_eq!(all.iter().map(|turn| turn.id).collect::<Vec<_>>(), ids);

    let of_first = Some(leases[0].session);
    let page = store.turns(of_first, Page::first(2)).await.unwrap();
    let page: Vec<_> = page.iter().map(|turn| turn.id).collect();
    assert_eq!(page, [ids[1], ids[3]]);
    let rest = Page { limit: 2, before: Some(page[1].as_uuid()) };
    let rest = store.turns(of_first, rest).await.unwrap();
    let rest: Vec<_> = rest.iter().map(|turn| turn.id).collect();
    assert_eq!(rest, [ids[5]]);
}

/// Creates turns whose ids sort before those of all earlier turns, as after the clock was set back.
async fn create_turns_back_in_time(
    store: &dyn Store,
    lease: &Lease,
    hash: [u8; 32],
) -> Vec<TurnRecord> {
    let mut turns = Vec::new();
    for number in (1..=4_u8).rev() {
        let mut turn = plain_turn(lease.session);
        let mut id = *turn.id.as_uuid().as_bytes();
        id[0] = number;
        turn.id = TurnId::from_uuid(Uuid::from_bytes(id));
        turn.created_at = timestamp(i64::from(number));
        turn.state = TurnState::Parked { resumes_at: timestamp(70) };
        let new = NewTurn { history_hash: Some(hash), ..NewTurn::from(turn.clone()) };
        store.create_turn(lease, &new).await.unwrap();
        turns.push(turn);
    }
    turns
}

fn ids(turns: &[TurnRecord]) -> Vec<TurnId> {
    turns.iter().map(|turn| turn.id).collect()
}

pub async fn turns_keep_their_order_when_the_clock_is_set_back(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let hash = [7; 32];
    let created = ids(&create_turns_back_in_time(&*store, &lease, hash).await);
    let newest_first: Vec<_> = created.iter().rev().copied().collect();

    for session in [None, Some(lease.session)] {
        let all = store.turns(session, Page::first(9)).await.unwrap();
        assert_eq!(ids(&all), newest_first);
        let mut page = Page::first(1);
        let mut seen = Vec::new();
        while let [turn] = store.turns(session, page).await.unwrap().as_slice() {
            seen.push(turn.id);
            page.before = Some(turn.id.as_uuid());
        }
        assert_eq!(seen, newest_first);
    }
    assert_eq!(ids(&store.resumable_turns(None).await.unwrap()), created);
    assert_eq!(ids(&store.resumable_turns(Some(lease.session)).await.unwrap()), created);
    let found = store.find_by_history(hash, 9).await.unwrap();
    assert_eq!(found.iter().map(|entry| entry.turn).collect::<Vec<_>>(), newest_first);
}

pub async fn a_page_goes_on_when_its_turn_is_gone(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let first = plain_turn(lease.session);
    create_turn(&*store, &lease, &first).await;
    let (gone_lease, gone) = stored_turn(&*store).await;
    let last = plain_turn(lease.session);
    create_turn(&*store, &lease, &last).await;
    store.delete_session(gone_lease.session).await.unwrap();
    let page = Page { limit: 9, before: Some(gone.id.as_uuid()) };
    let older = store.turns(None, page).await.unwrap();
    assert_eq!(ids(&older), [first.id]);
}

pub async fn a_session_is_updated_by_its_turns(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    let updated_at = async || {
        let one = store.session(lease.session).await.unwrap().unwrap().updated_at;
        let listed = store.sessions(Page::first(1)).await.unwrap();
        assert_eq!(listed[0].updated_at, one);
        one
    };
    let created = updated_at().await;
    let later = |seconds| created + jiff::SignedDuration::from_secs(seconds);
    let mut turn = plain_turn(lease.session);
    turn.created_at = later(10);
    create_turn(&*store, &lease, &turn).await;
    assert_eq!(updated_at().await, later(10));
    let mut end = event(&turn, 1, finished());
    end.at = later(20);
    store.append(&lease, vec![end]).await.unwrap().await.unwrap();
    assert_eq!(updated_at().await, later(20));
    // Writing the session with an older time does not undo the update made by the turn.
    let mut session = store.session(lease.session).await.unwrap().unwrap();
    session.updated_at = created;
    store.put_session(&session).await.unwrap();
    assert_eq!(updated_at().await, later(20));
}

pub async fn a_turn_changes_its_state_until_it_has_finished(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    for state in [
        TurnState::Running,
        TurnState::AwaitingApproval,
        TurnState::AwaitingToolResult,
        TurnState::Parked { resumes_at: timestamp(70) },
        TurnState::Queued,
    ] {
        store.set_turn_state(&lease, turn.id, &state).await.unwrap();
        let stored = store.turn(turn.id).await.unwrap().unwrap();
        assert_eq!(stored.state, state);
    }
    let append = store.append(&lease, vec![event(&turn, 1, finished())]);
    append.await.unwrap().await.unwrap();
    let late = store.set_turn_state(&lease, turn.id, &TurnState::Running).await;
    assert!(matches!(late, Err(StoreError::TurnFinished)), "{late:?}");
    let missing =
        store.set_turn_state(&lease, plain_turn(lease.session).id, &TurnState::Running).await;
    assert!(matches!(missing, Err(StoreError::NotFound("turn"))), "{missing:?}");
}

pub async fn the_finished_event_finishes_the_turn(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let last = event(&turn, 9, finished());
    let at = last.at;
    let append = store.append(&lease, vec![last]).await.unwrap();
    append.await.unwrap();
    let state = store.turn(turn.id).await.unwrap().unwrap().state;
    assert_eq!(
        state,
        TurnState::Finished { at, outcome: outcome(angelia_core::model::TurnStatus::Completed) }
    );
}

pub async fn every_outcome_comes_back_as_it_was(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let lease = owned_session(&*store).await;
    for status in every_status() {
        let turn = plain_turn(lease.session);
        create_turn(&*store, &lease, &turn).await;
        let expected = outcome(status);
        let last = angelia_core::model::EventKind::Finished(expected.clone());
        let append = store.append(&lease, vec![event(&turn, 1, last.clone())]);
        append.await.unwrap().await.unwrap();
        let stored = store.turn(turn.id).await.unwrap().unwrap();
        assert_eq!(stored.state.outcome(), Some(&expected));
        assert_same_debug(&store.replay(turn.id, 0, 10).await.unwrap()[0].kind, &last);
    }
}
