//! A server that is killed while a store writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use angelia_core::ports::Store as _;
use angelia_testkit::{
    conformance::store::{event, notice, stored_turn},
    postgres_server::PostgresServer,
};

use super::database::TestDatabase;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_that_was_committed() {
    let database = Arc::new(TestDatabase::on(Arc::new(PostgresServer::start().unwrap())));
    let store = Arc::new(database.open());
    let (lease, turn) = stored_turn(&*store).await;
    let (committed, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writing = {
        let (store, turn) = (Arc::clone(&store), turn.clone());
        let (committed, is_over) = (Arc::clone(&committed), Arc::clone(&is_over));
        async move {
            let mut seq = 0;
            while !is_over.load(Ordering::Relaxed) {
                seq += 1;
                let append = store.append(&lease, vec![event(&turn, seq, notice("n"))]);
                append.await.unwrap().await.unwrap();
                committed.store(seq, Ordering::Relaxed);
            }
        }
    };
    let killing = {
        let (database, committed, is_over) = (database, Arc::clone(&committed), is_over);
        async move {
            for _ in 0..3 {
                wait_for_more(&committed).await;
                database.server.kill().unwrap();
                database.server.restart().unwrap();
            }
            wait_for_more(&committed).await;
            is_over.store(true, Ordering::Relaxed);
            database
        }
    };
    // On two threads: a restart blocks its own.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(writing);
    let database = killing.await;
    tasks.join_all().await;
    let events = store.replay(turn.id, 0, usize::MAX).await.unwrap();
    let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
    let expected: Vec<_> = (1..=committed.load(Ordering::Relaxed)).collect();
    assert_eq!(seqs, expected);
    drop(store);
    drop(database);
}

/// Waits until some more events have been committed.
async fn wait_for_more(committed: &AtomicU64) {
    let goal = committed.load(Ordering::Relaxed) + 20;
    let deadline = Instant::now() + Duration::from_mins(1);
    while committed.load(Ordering::Relaxed) < goal {
        assert!(Instant::now() < deadline, "nothing is committed any more");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
