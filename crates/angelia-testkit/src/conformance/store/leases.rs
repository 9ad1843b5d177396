//! Leases: only one process may write to a session, and another can take over when that process
//! dies.

use angelia_core::{
    model::TurnState,
    ports::{Lease, Store, StoreError},
};

use super::{
    StoreFixture,
    samples::{
        assert_same_debug, create_turn, event, finished, notice, owned_session, plain_turn,
        stored_turn,
    },
};

/// Asserts that every write with this lease is refused because the lease is lost.
async fn assert_lease_lost(store: &dyn Store, lease: &Lease) {
    let new = plain_turn(lease.session);
    let created = store.create_turn(lease, &new.into()).await;
    assert!(matches!(created, Err(StoreError::LeaseLost)), "{created:?}");
    let turns =
        store.turns(Some(lease.session), angelia_core::ports::Page::first(1)).await.unwrap();
    let Some(turn) = turns.first() else { return };
    let set = store.set_turn_state(lease, turn.id, &TurnState::Running).await;
    assert!(matches!(set, Err(StoreError::LeaseLost)), "{set:?}");
    let append = store.append(lease, vec![event(turn, 50, notice("n"))]);
    let appended = append.await.unwrap().await;
    assert!(matches!(appended, Err(StoreError::LeaseLost)), "{appended:?}");
    assert!(store.replay(turn.id, 49, 1).await.unwrap().is_empty());
}

pub async fn a_lost_lease_cannot_write(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, _) = stored_turn(&*store).await;
    for epoch in [0, lease.epoch - 1, lease.epoch + 1] {
        let forged = Lease { epoch, ..lease.clone() };
        assert_lease_lost(&*store, &forged).await;
    }
}

pub async fn a_released_lease_cannot_write(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, _) = stored_turn(&*store).await;
    store.release_lease(lease.clone()).await.unwrap();
    assert_lease_lost(&*store, &lease).await;
    // Releasing twice is not an error.
    store.release_lease(lease).await.unwrap();
}

pub async fn the_same_process_may_acquire_again(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (old, turn) = stored_turn(&*store).await;
    let new = store.acquire_lease(old.session).await.unwrap();
    assert!(new.epoch > old.epoch);
    assert_lease_lost(&*store, &old).await;
    // Releasing the old, lost lease does not release the new one.
    store.release_lease(old).await.unwrap();
    let append = store.append(&new, vec![event(&turn, 1, notice("n"))]);
    append.await.unwrap().await.unwrap();

    store.release_lease(new.clone()).await.unwrap();
    let newest = store.acquire_lease(new.session).await.unwrap();
    assert!(newest.epoch > new.epoch);
}

pub async fn a_living_owner_keeps_its_session(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let (one, two) = (fixture.open(), fixture.open());
    let lease = owned_session(&*one).await;
    let acquired = two.acquire_lease(lease.session).await;
    let Err(StoreError::Held(holder)) = acquired else {
        unreachable!("the owner is alive: {acquired:?}");
    };
    assert_eq!(holder.pid, std::process::id());
    let deleted = two.delete_session(lease.session).await;
    assert!(matches!(deleted, Err(StoreError::Held(_))), "{deleted:?}");

    // Another process can neither use nor release the owner's lease.
    assert_lease_lost(&*two, &lease).await;
    two.release_lease(lease.clone()).await.unwrap();
    create_turn(&*one, &lease, &plain_turn(lease.session)).await;

    one.release_lease(lease.clone()).await.unwrap();
    let taken = two.acquire_lease(lease.session).await.unwrap();
    assert!(taken.epoch > lease.epoch);
    assert_lease_lost(&*one, &lease).await;
}

pub async fn a_dead_owner_loses_its_session(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let (dead, living) = (fixture.open(), fixture.open());
    let (lease, turn) = stored_turn(&*dead).await;
    drop(dead);
    let taken = living.acquire_lease(lease.session).await.unwrap();
    assert!(taken.epoch > lease.epoch);
    let append = living.append(&taken, vec![event(&turn, 1, finished())]);
    append.await.unwrap().await.unwrap();
    assert_lease_lost(&*living, &lease).await;
}

pub async fn turns_of_the_living_are_not_lost(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    store.set_turn_state(&lease, turn.id, &TurnState::Running).await.unwrap();
    assert_same_debug(&store.lost_turns().await.unwrap(), &[(); 0]);
    if fixture.is_shared() {
        assert_same_debug(&fixture.open().lost_turns().await.unwrap(), &[(); 0]);
    }
}

pub async fn turns_of_the_dead_are_lost(fixture: &impl StoreFixture) {
    if !fixture.is_shared() {
        return;
    }
    let (dead, living) = (fixture.open(), fixture.open());
    let (lease, mut lost) = stored_turn(&*dead).await;
    lost.state = TurnState::AwaitingApproval;
    dead.set_turn_state(&lease, lost.id, &lost.state).await.unwrap();
    let (lease, done) = stored_turn(&*dead).await;
    let append = dead.append(&lease, vec![event(&done, 1, finished())]);
    append.await.unwrap().await.unwrap();
    let (_, also_lost) = stored_turn(&*dead).await;
    let (_kept, _) = stored_turn(&*living).await;
    drop(dead);
    assert_same_debug(&living.lost_turns().await.unwrap(), &[lost, also_lost]);
}

pub async fn a_turn_without_an_owner_is_lost(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    store.release_lease(lease.clone()).await.unwrap();
    assert_same_debug(&store.lost_turns().await.unwrap(), &std::slice::from_ref(&turn));

    // The next process that acquires the session finishes the lost turn.
    let lease = store.acquire_lease(lease.session).await.unwrap();
    let append = store.append(&lease, vec![event(&turn, 1, finished())]);
    append.await.unwrap().await.unwrap();
    store.release_lease(lease).await.unwrap();
    assert_same_debug(&store.lost_turns().await.unwrap(), &[(); 0]);
}

pub async fn a_closed_store_says_so(fixture: &impl StoreFixture) {
    let store = fixture.open();
    let (lease, turn) = stored_turn(&*store).await;
    let last = store.append(&lease, vec![event(&turn, 1, notice("n"))]);
    let last = last.await.unwrap();
    store.close().await;
    last.await.unwrap();
    let read = store.session(lease.session).await.unwrap_err().to_string();
    assert!(read.contains("closed"), "{read}");
    let written = store.acquire_lease(lease.session).await.unwrap_err().to_string();
    assert!(written.contains("closed"), "{written}");
    store.close().await;
}

pub async fn a_store_says_whether_it_can_be_written(fixture: &impl StoreFixture) {
    let store = fixture.open();
    for _ in 0..3 {
        store.check_writable().await.unwrap();
    }
    store.close().await;
    store.check_writable().await.unwrap_err();
}
