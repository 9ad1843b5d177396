//! Owners: the fence of a dead one, and machines that do not share a database yet.

use std::thread;

use angelia_core::{
    model::TurnState,
    ports::{NewTurn, RequestClaim, Store as _, StoreError},
};
use angelia_testkit::conformance::store::{
    event, finished, notice, plain_session, plain_turn, stored_turn, timestamp,
};

use super::database::TestDatabase;

fn assert_lost<T: std::fmt::Debug>(answer: &Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::LeaseLost)), "{answer:?}");
}

#[tokio::test]
async fn an_owner_that_was_marked_dead_writes_nothing_more() {
    let database = TestDatabase::new();
    let store = database.open();
    let (lease, turn) = stored_turn(&store).await;
    database.query("UPDATE owners SET dead_at = clock_timestamp()");

    let append = store.append(&lease, vec![event(&turn, 1, notice("n"))]);
    assert_lost(&append.await.unwrap().await);
    assert_lost(&store.set_turn_state(&lease, turn.id, &TurnState::Running).await);
    assert_lost(&store.create_turn(&lease, &plain_turn(lease.session).into()).await);
    let claim = RequestClaim {
        caller: "owner".into(),
        key: "k".into(),
        input: [1; 32],
        since: timestamp(-1),
    };
    let claimed = NewTurn { claim: Some(claim), ..plain_turn(lease.session).into() };
    assert_lost(&store.create_turn(&lease, &claimed).await);
    assert_lost(&store.acquire_lease(lease.session).await);
    assert_lost(&store.create_session(&plain_session()).await);
    assert_eq!(store.replay(turn.id, 0, 9).await.unwrap().len(), 0);
    assert_eq!(database.value("SELECT count(*) FROM turns"), "1");
    assert_eq!(database.value("SELECT count(*) FROM claims"), "0");
}

/// The last write of a process that has died is still on its way through the server.
#[tokio::test]
async fn a_takeover_waits_for_the_last_write_of_the_dead() {
    let database = TestDatabase::new();
    let dead = database.open();
    let (lease, turn) = stored_turn(&dead).await;
    drop(dead);
    let (server, name) = (database.server.clone(), database.name.clone());
    let last_write = format!(
        "SET search_path = angelia; BEGIN;
         SELECT enter_group(id, batch, batch + 1) FROM owners;
         SELECT pg_sleep(0.3);
         SELECT append_events(l.owner, l.session_id, l.epoch, '{}', '{{}}', '{{1}}', '{{0}}',
            1::smallint, '{{notice}}', ARRAY['{{}}'::bytea]) FROM leases l;
         COMMIT",
        turn.id.as_uuid()
    );
    let writing = thread::spawn(move || server.query(&name, &last_write).map(drop));
    let asleep = "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    database.server.wait_for(&database.name, asleep, "1").unwrap();

    let store = database.open();
    let lease = store.acquire_lease(lease.session).await.unwrap();
    let events = store.replay(turn.id, 0, 9).await.unwrap();
    assert_eq!(events.len(), 1, "it was committed before the session was taken over");
    writing.join().unwrap().unwrap();
    let append = store.append(&lease, vec![event(&turn, 2, finished())]);
    append.await.unwrap().await.unwrap();
    let mark = "SELECT count(*) FROM owners WHERE dead_at IS NOT NULL";
    assert_eq!(database.value(mark), "1");
}

#[tokio::test]
async fn one_machine_at_a_time_uses_a_database() {
    let database = TestDatabase::new();
    let (one, two) = (TestDatabase::machine("one"), TestDatabase::machine("two"));
    let folder = database.server.socket_folder();
    let store = database.try_open(folder, &one).unwrap();
    let lease = stored_turn(&store).await.0;
    let refused = database.try_open(folder, &two).unwrap_err().to_string();
    assert!(refused.contains("machine `one`"), "{refused}");

    // A machine that has not been heard for a while no longer counts, and its sessions are free.
    drop(store);
    database.query("UPDATE owners SET seen_at = clock_timestamp() - interval '31 s'");
    let store = database.try_open(folder, &two).unwrap();
    assert_eq!(store.lost_turns().await.unwrap().len(), 1);
    assert_eq!(store.acquire_lease(lease.session).await.unwrap().epoch, lease.epoch + 1);
}

#[tokio::test]
async fn a_store_that_is_closed_signs_off() {
    let database = TestDatabase::new();
    let store = database.open();
    store.create_session(&plain_session()).await.unwrap();
    assert_eq!(database.value("SELECT count(*) FROM owners WHERE dead_at IS NULL"), "1");
    store.close().await;
    assert_eq!(database.value("SELECT count(*) FROM owners WHERE dead_at IS NULL"), "0");
}
