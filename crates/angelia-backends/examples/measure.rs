use std::{sync::Arc, time::Instant};
use angelia_backends::{owners::Owners, store::SqliteStore};
use angelia_core::ports::Store as _;
use angelia_testkit::conformance::store::*;
#[tokio::main]
async fn main() {
    let home = tempfile::tempdir().unwrap();
    let open = || {
        let t = Instant::now();
        let owner = Arc::new(Owners::new(home.path().join("o")).enter("run").unwrap());
        let a = t.elapsed();
        let s = SqliteStore::open(&home.path().join("state.db"), owner).unwrap();
        println!("owner {a:?} open {:?}", t.elapsed());
        s
    };
    drop(open()); drop(open()); 
    let store = open();
    let (lease, turn) = stored_turn(&store).await;
    for batch in [1u64, 8, 64] {
        let t = Instant::now();
        let n = 100_000u64 / if batch == 1 { 4 } else { 1 };
        let base = batch * 10_000_000;
        let mut last = None;
        for i in 0..n / batch {
            let events = (0..batch).map(|j| event(&turn, base + i * batch + j, notice("a notice of some usual length, say sixty bytes of it"))).collect();
            last = Some(store.append(&lease, events).await.unwrap());
        }
        last.unwrap().await.unwrap();
        println!("batch {batch}: {:?}/event", t.elapsed() / n as u32);
    }
    let t = Instant::now();
    for i in 0..2000 { store.append(&lease, vec![event(&turn, 1 + i, notice("x"))]).await.unwrap().await.unwrap(); }
    println!("committed one by one {:?}", t.elapsed() / 2000);
    let t = Instant::now();
    for _ in 0..2000 { store.turn(turn.id).await.unwrap(); }
    println!("read turn {:?}", t.elapsed() / 2000);
    let t = Instant::now();
    let n = store.replay(turn.id, 0, 100_000).await.unwrap().len();
    println!("replay {:?}/event", t.elapsed() / n as u32);
    let t = Instant::now();
    let mut s = plain_session(); store.create_session(&s).await.unwrap();
    println!("create session {:?}", t.elapsed());
    let t = Instant::now();
    for _ in 0..500 { s.revision = store.put_session(&s).await.unwrap(); }
    println!("put session {:?}", t.elapsed()/500);
}
