//! What only the inside can show: how many transactions there were, and a disk that is full.

use std::{fs, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{Content, TurnEvent, TurnRecord},
    ports::{Committed, Lease, Store as _},
};
use angelia_testkit::conformance::store::{
    event, every_event, full_spec, notice, plain_session, plain_turn, stored_turn,
};
use rusqlite::TransactionBehavior;
use tempfile::TempDir;

use super::{SqliteStore, event_json, open, spec_json};
use crate::owners::Owners;

fn open_in(home: &TempDir) -> SqliteStore {
    let owner = Owners::new(home.path().join("owners"))
        .enter("run")
        .unwrap();
    SqliteStore::open(&home.path().join("state.db"), Arc::new(owner)).unwrap()
}

/// Counts the frames of the write-ahead log that end a transaction.
fn commits(home: &TempDir) -> usize {
    let log = fs::read(home.path().join("state.db-wal")).unwrap();
    let salt = &log[16..24];
    log[32..]
        .chunks_exact(24 + 4096)
        .filter(|frame| &frame[8..16] == salt && frame[4..8] != [0; 4])
        .count()
}

async fn append(store: &SqliteStore, lease: &Lease, event: TurnEvent) -> Committed {
    store.append(lease, vec![event]).await.unwrap()
}

#[tokio::test]
async fn what_queues_up_shares_a_transaction() {
    let home = tempfile::tempdir().unwrap();
    let store = open_in(&home);
    let (lease, turn) = stored_turn(&store).await;
    let before = commits(&home);

    // Another writer is in the way, so that everything queues up.
    let mut other = open::writable(&home.path().join("state.db")).unwrap();
    let lock = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let mut waiting = Vec::new();
    for seq in 1..=200 {
        waiting.push(append(&store, &lease, event(&turn, seq, notice("n"))).await);
    }
    lock.rollback().unwrap();
    for committed in waiting {
        committed.await.unwrap();
    }
    let needed = commits(&home) - before;
    assert!(needed <= 2, "200 appends took {needed} transactions");
}

#[tokio::test]
async fn a_full_disk_is_named_and_the_store_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let store = open_in(&home);
    let (lease, turn) = stored_turn(&store).await;
    let limit = |pages: i64| {
        store.writer.write(move |db| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            db.connection.query_row(&sql, [], |_| Ok(()))?;
            Ok(())
        })
    };
    let big = |seq| event(&turn, seq, notice(&"x".repeat(100_000)));
    append(&store, &lease, big(1)).await.await.unwrap();
    limit(1).await.unwrap();

    // Small ones that fit are queued around one that does not.
    let first = append(&store, &lease, event(&turn, 2, notice("fits"))).await;
    let second = append(&store, &lease, big(3)).await;
    let third = append(&store, &lease, event(&turn, 4, notice("fits"))).await;
    first.await.unwrap();
    let error = second.await.unwrap_err().to_string();
    assert!(
        error.contains("disk is full") && error.contains("free some space"),
        "{error}"
    );
    third.await.unwrap();
    let mut too_big = plain_turn(lease.session);
    too_big.input = vec![Content::text("x".repeat(100_000))];
    assert!(store.create_turn(&lease, &too_big).await.is_err());
    assert!(store.turn(too_big.id).await.unwrap().is_none());

    limit(1_000_000).await.unwrap();
    append(&store, &lease, big(5)).await.await.unwrap();
    let stored = store.replay(turn.id, 0, 100).await.unwrap();
    let stored: Vec<_> = stored.iter().map(|event| event.seq).collect();
    assert_eq!(stored, [1, 2, 4, 5]);
}

#[tokio::test]
async fn a_job_that_fails_does_not_spoil_its_group() {
    let home = tempfile::tempdir().unwrap();
    let store = open_in(&home);
    let (lease, turn) = stored_turn(&store).await;
    let mut other = open::writable(&home.path().join("state.db")).unwrap();
    let lock = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let stale = Lease {
        epoch: 0,
        ..lease.clone()
    };
    let good = append(&store, &lease, event(&turn, 1, notice("n"))).await;
    let lost = append(&store, &stale, event(&turn, 2, notice("n"))).await;
    let twice = append(&store, &lease, event(&turn, 1, notice("n"))).await;
    let better = append(&store, &lease, event(&turn, 3, notice("n"))).await;
    lock.rollback().unwrap();
    good.await.unwrap();
    assert!(lost.await.is_err() && twice.await.is_err());
    better.await.unwrap();
    assert_eq!(store.replay(turn.id, 0, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn another_writer_is_waited_for_and_then_named() {
    let home = tempfile::tempdir().unwrap();
    let store = open_in(&home);
    let (lease, turn) = stored_turn(&store).await;
    let impatient = store.writer.write(|db| {
        db.connection.busy_timeout(Duration::from_millis(20))?;
        Ok(())
    });
    impatient.await.unwrap();
    let mut other = open::writable(&home.path().join("state.db")).unwrap();
    let lock = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let error = store.release(lease.clone()).await.unwrap_err().to_string();
    assert!(
        error.contains("busy") && error.contains("try again"),
        "{error}"
    );
    // Reading goes on meanwhile, and writing afterwards.
    assert!(store.turn(turn.id).await.unwrap().is_some());
    lock.rollback().unwrap();
    store.release(lease).await.unwrap();
}

#[tokio::test]
async fn dropping_the_store_writes_what_was_queued() {
    let home = tempfile::tempdir().unwrap();
    let store = open_in(&home);
    let (lease, turn): (_, TurnRecord) = stored_turn(&store).await;
    for seq in 1..=100 {
        drop(append(&store, &lease, event(&turn, seq, notice("n"))).await);
    }
    drop(store);
    let store = open_in(&home);
    assert_eq!(store.replay(turn.id, 0, 1000).await.unwrap().len(), 100);
}

#[tokio::test]
async fn an_unchanged_specification_is_not_written_again() {
    let home = tempfile::tempdir().unwrap();
    let store = open_in(&home);
    let mut session = plain_session();
    session.spec.system = angelia_core::model::SystemPrompt::Append("long ".repeat(100_000).into());
    store.create_session(&session).await.unwrap();
    let log = home.path().join("state.db-wal");
    let size = |log: &Path| fs::metadata(log).unwrap().len();
    let before = size(&log);
    session.title = Some("new".into());
    store.put_session(&session).await.unwrap();
    assert!(size(&log) - before < 50_000);
}

/// The bytes on disk. A change here means that files of the last version read differently.
#[test]
fn events_have_a_known_form() {
    let lines = every_event().into_iter().map(|kind| {
        let mut body = Vec::new();
        let word = event_json::encode(&kind, &mut body).unwrap();
        format!("{word} {}\n", String::from_utf8(body).unwrap())
    });
    insta::assert_snapshot!(lines.collect::<String>());
}

#[test]
fn specifications_have_a_known_form() {
    let mut body = Vec::new();
    spec_json::encode(&full_spec(), &mut body).unwrap();
    insta::assert_snapshot!(String::from_utf8(body).unwrap());
}
