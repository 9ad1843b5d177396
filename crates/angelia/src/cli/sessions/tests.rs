//! Lists of long sessions, from the store and from the daemon.

use angelia_core::model::{Content, SessionId};
use angelia_testkit::conformance::store::{plain_session, plain_turn};

use super::{list, show};
use crate::{cli::args::ListArgs, client::test_daemon::TestDaemon, records::PAGE_SIZE};

/// Records a session without a title that is longer than a page.
async fn record_long_session(stage: &TestDaemon) -> SessionId {
    let session = plain_session();
    stage.store.create_session(&session).await.unwrap();
    let lease = stage.store.acquire_lease(session.id).await.unwrap();
    for number in 0..=PAGE_SIZE {
        let mut turn = plain_turn(session.id);
        turn.input = vec![Content::text(format!("\nprompt {number}\nmore"))];
        stage.store.create_turn(&lease, &turn.into()).await.unwrap();
    }
    session.id
}

#[tokio::test]
async fn a_long_session_is_named_by_its_first_prompt() {
    let stage = TestDaemon::new();
    let id = record_long_session(&stage).await;
    for records in stage.records().await {
        let text = list(&records, &ListArgs { limit: 20, json: false }).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with(&id.to_string()) && text.ends_with("  prompt 0\n"), "{text}");
    }
}

#[tokio::test]
async fn a_long_session_is_shown_with_all_its_turns() {
    let stage = TestDaemon::new();
    let id = record_long_session(&stage).await;
    let [stored, served] = stage.records().await;
    let text = String::from_utf8(show(&stored, id, false).await.unwrap()).unwrap();
    let (_, turns) = text.split_once("\nturns\n").unwrap();
    assert_eq!(turns.lines().count(), PAGE_SIZE + 1);
    let by_daemon = String::from_utf8(show(&served, id, false).await.unwrap()).unwrap();
    assert_eq!(by_daemon, text);
}
