//! Tests of the search for a running turn.

use angelia_core::model::SessionSpec;
use angelia_testkit::conformance::store::{plain_session, plain_turn};

use super::*;
use crate::client::test_daemon::TestDaemon;

async fn record_turns(store: &dyn Store, executor: &str, count: usize) {
    let mut session = plain_session();
    session.spec = SessionSpec::new(executor, "/project");
    store.create_session(&session).await.unwrap();
    let lease = store.acquire_lease(session.id).await.unwrap();
    for _ in 0..count {
        let turn = plain_turn(session.id);
        store.create_turn(&lease, &turn.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_codex_turn_is_found_behind_many_others() {
    let store = TestDaemon::new().store;
    record_turns(&*store, "fake", PAGE_SIZE + 1).await;
    ensure_no_running_turn(&*store).await.unwrap();
    record_turns(&*store, REGISTRATION.name, 1).await;
    record_turns(&*store, "fake", PAGE_SIZE + 1).await;
    let error = ensure_no_running_turn(&*store).await.unwrap_err();
    assert_eq!(error.exit, Exit::TryLater);
    assert!(error.message.contains("Codex is working"), "{error}");
}
