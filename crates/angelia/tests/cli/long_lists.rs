//! Ten thousand sessions and turns: a list shows a page, and page after page shows each entry once.

use std::{collections::HashSet, sync::Arc};

use angelia_backends::{owners::OwnerRegistry, store::SqliteStore};
use angelia_core::{model::SessionRecord, ports::Store as _};
use angelia_testkit::conformance::store::{event, finished, plain_session, plain_turn};
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::machine::Machine;

const ENTRIES: usize = 10_000;
const PAGE: usize = 2500;
/// The number of entries that are written at the same time: they share transactions.
const AT_ONCE: usize = 500;

/// Returns a session that a daemon does not remove for its age.
fn new_session() -> SessionRecord {
    let now = Timestamp::now();
    SessionRecord { created_at: now, updated_at: now, ..plain_session() }
}

/// Records the sessions, and as many turns in one of them.
async fn fill(machine: &Machine) {
    let owners = OwnerRegistry::new(machine.home().join("run/owners"));
    let owner = Arc::new(owners.register("run").unwrap());
    let store = SqliteStore::open(&machine.home().join("state.db"), owner).unwrap();
    let store = Arc::new(store);
    let long = new_session();
    store.create_session(&long).await.unwrap();
    let lease = Arc::new(store.acquire_lease(long.id).await.unwrap());
    for _ in 0..ENTRIES / AT_ONCE {
        let mut writes = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (store, lease) = (Arc::clone(&store), Arc::clone(&lease));
            let turn = plain_turn(long.id);
            writes.spawn(async move {
                store.create_session(&new_session()).await.unwrap();
                store.create_turn(&lease, &turn.clone().into()).await.unwrap();
                let end = vec![event(&turn, 1, finished())];
                store.append(&lease, end).await.unwrap().await.unwrap();
            });
        }
        writes.join_all().await;
    }
    let lease = Arc::into_inner(lease).unwrap();
    store.release_lease(lease).await.unwrap();
    store.close().await;
}

/// Reads a list page by page and returns the ids, in order.
fn read_pages(machine: &Machine, what: &str) -> Vec<String> {
    let size = PAGE.to_string();
    let mut ids: Vec<String> = Vec::new();
    loop {
        let mut arguments = vec![what, "list", "--json", "-n", &size];
        if let Some(last) = ids.last() {
            arguments.extend(["--before", last]);
        }
        let listed = machine.angelia(&arguments);
        listed.assert_code(0);
        let id = |line: &str| {
            let entry: Value = serde_json::from_str(line).unwrap();
            entry["id"].as_str().unwrap().to_owned()
        };
        let page: Vec<String> = listed.stdout.lines().map(id).collect();
        assert!(page.len() <= PAGE, "{}", page.len());
        if page.is_empty() {
            return ids;
        }
        ids.extend(page);
    }
}

#[tokio::test]
async fn ten_thousand_entries_are_listed_page_by_page() {
    let machine = Machine::new();
    machine.angelia(&["sessions", "list"]).assert_code(0);
    fill(&machine).await;
    let turns = read_pages(&machine, "turns");
    assert_eq!((turns.len(), count_different(&turns)), (ENTRIES, ENTRIES));
    let sessions = read_pages(&machine, "sessions");
    // One session more has the turns.
    assert_eq!((sessions.len(), count_different(&sessions)), (ENTRIES + 1, ENTRIES + 1));
    for what in ["sessions", "turns"] {
        let listed = machine.angelia(&[what, "list"]);
        assert_eq!(listed.assert_code(0).stdout.lines().count(), 21, "{listed:#?}");
    }
    let _serving = machine.serve();
    let of_daemon = read_pages(&machine, "sessions");
    assert!(of_daemon == sessions, "the daemon lists other sessions, or in another order");
}

fn count_different(ids: &[String]) -> usize {
    ids.iter().collect::<HashSet<_>>().len()
}
