//! `/readyz`: whether turns can be recorded, and what readers see while they cannot.

use std::{sync::Arc, time::Duration};

use angelia_core::{engine::EngineLimits, ports::Store as _};
use angelia_testkit::{
    memory_store::MemoryStore,
    unreliable_store::{UnreliableStore, WriteFault},
};
use axum::http::{Method, StatusCode};
use serde_json::json;
use tokio::time::sleep;

use crate::harness::ApiHarness;

/// Longer than the answer of a check is kept.
const NEXT_CHECK: Duration = Duration::from_millis(1100);

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_written_is_not_ready() {
    let store = Arc::new(UnreliableStore::new(Arc::new(MemoryStore::new())));
    let stage = ApiHarness::with_store(Arc::clone(&store) as _, EngineLimits::default());
    assert_eq!(stage.get("/readyz").await, json!({"status": "ready"}));

    let id = stage.session().await;
    let turn = stage.submit(&id, "held fail").await;
    stage.wait_for_status(&turn, "running").await;
    store.fail_writes(1, usize::MAX / 2, WriteFault::NoSpace);
    sleep(NEXT_CHECK).await;
    let refused = stage.call(Method::GET, "/readyz", None).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let error = &refused.json()["error"];
    assert!(error["message"].as_str().unwrap().contains("cannot be recorded"), "{error}");
    assert!(error["hint"].is_string(), "{error}");

    // The end is shown and readers find it, although it is not written.
    stage.permits.add_permits(1);
    stage.wait_for_status(&turn, "failed").await;
    let turn_id = turn.parse().unwrap();
    assert!(store.turn(turn_id).await.unwrap().unwrap().state.outcome().is_none());
    let shown = stage.get(&format!("/api/turns/{turn}")).await;

    store.heal();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(stage.get("/readyz").await, json!({"status": "ready"}));
    assert!(store.turn(turn_id).await.unwrap().unwrap().state.outcome().is_some());
    assert_eq!(stage.get(&format!("/api/turns/{turn}")).await, shown);
}

/// However many ask, the store is written once a second.
#[tokio::test(start_paused = true)]
async fn many_questions_are_one_check() {
    let store = Arc::new(UnreliableStore::new(Arc::new(MemoryStore::new())));
    let stage = ApiHarness::with_store(Arc::clone(&store) as _, EngineLimits::default());
    let before = store.write_count();
    for _ in 0..50 {
        stage.get("/readyz").await;
    }
    assert_eq!(store.write_count() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_updates_its_session() {
    let stage = ApiHarness::new();
    let id = stage.session().await;
    let path = format!("/api/sessions/{id}");
    let before = stage.get(&path).await;
    assert_eq!(before["updated_at"], before["created_at"]);
    let turn = stage.submit(&id, "echo hi").await;
    stage.wait_for_status(&turn, "completed").await;
    let after = stage.get(&path).await;
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str(), "{before} {after}");
    assert_eq!(after["created_at"], before["created_at"]);
}
