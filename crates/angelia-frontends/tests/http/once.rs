//! `Idempotency-Key`: however often a request is sent, it is run once.

use angelia_core::engine::EngineLimits;
use axum::http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{ApiHarness, ApiResponse, own_process_source, request};

async fn submit(stage: &ApiHarness, session: &str, key: &str, input: &str) -> ApiResponse {
    let path = format!("/api/sessions/{session}/turns");
    let mut request = request(Method::POST, &path, Some(json!({"input": input})));
    let headers = request.headers_mut();
    headers.insert("Idempotency-Key", HeaderValue::from_str(key).unwrap());
    stage.send(request).await
}

fn is_repeat(answer: &ApiResponse) -> bool {
    answer.headers.get("x-angelia-repeat").is_some()
}

async fn turns(stage: &ApiHarness) -> usize {
    let turns = stage.get("/api/turns").await;
    turns["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_repeat_gets_the_turn_of_the_first_running_or_over() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let first = submit(&stage, &session, "k-1", "held echo hi").await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    assert!(!is_repeat(&first));
    let first = first.json();
    assert_eq!(first["status"], "running");
    let turn = first["id"].as_str().unwrap();
    let running = submit(&stage, &session, " k-1 ", "held echo hi").await;
    assert_eq!(running.status, StatusCode::ACCEPTED);
    assert_eq!(running.json(), first);
    assert!(is_repeat(&running));

    stage.permits.add_permits(1);
    stage.wait_for_status(turn, "completed").await;
    let over = submit(&stage, &session, "k-1", "held echo hi").await;
    assert_eq!(over.status, StatusCode::ACCEPTED);
    assert!(is_repeat(&over));
    assert_eq!(over.json(), json!({"id": turn, "session_id": session, "status": "completed"}));
    // The repeated request can read the events from the first one on.
    let events = stage.events(turn, 0).await;
    assert!(events.contains("event: turn.started") && events.contains("event: turn.finished"));
    assert_eq!(turns(&stage).await, 1);
}

#[tokio::test]
async fn a_repeat_needs_no_room_in_the_queue() {
    let limits = EngineLimits { max_queued_turns: 1, ..EngineLimits::default() };
    let stage = ApiHarness::with_limits(limits);
    let session = stage.session().await;
    let first = submit(&stage, &session, "first", "held echo hi").await.success_json();
    // The session actor removes the first turn from the queue a little later.
    let second = loop {
        let answer = submit(&stage, &session, "second", "echo hi").await;
        if answer.status == StatusCode::ACCEPTED {
            break answer.json();
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let full = submit(&stage, &session, "third", "echo hi").await;
    assert_eq!(full.error().0, 429);
    for (key, input, turn) in [("first", "held echo hi", &first), ("second", "echo hi", &second)] {
        let again = submit(&stage, &session, key, input).await;
        assert!(is_repeat(&again), "{key}: {:?}", again.error());
        assert_eq!(again.json()["id"], turn["id"]);
    }
    let other = submit(&stage, &session, "second", "echo something else").await;
    assert_eq!(other.error().0, 409);
}

#[tokio::test]
async fn something_else_under_the_same_key_is_refused() {
    let stage = ApiHarness::new();
    let (session, other) = (stage.session().await, stage.session().await);
    let turn = submit(&stage, &session, "k", "echo one").await.success_json();
    for (session, input) in [(&session, "echo two"), (&other, "echo one")] {
        let (status, kind, message) = submit(&stage, session, "k", input).await.error();
        assert_eq!((status, kind.as_str()), (409, "conflict"));
        assert!(message.contains(turn["id"].as_str().unwrap()), "{message}");
    }
    // Another key, or none, is another request.
    submit(&stage, &session, "K", "echo one").await.success_json();
    stage.submit(&session, "echo one").await;
    assert_eq!(turns(&stage).await, 3);
}

/// The owner counts as one caller, over TCP and over the Unix socket.
#[tokio::test]
async fn a_repeat_may_come_another_way() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = submit(&stage, &session, "k", "echo one").await.success_json();
    let path = format!("/api/sessions/{session}/turns");
    let mut again = request(Method::POST, &path, Some(json!({"input": "echo one"})));
    again.extensions_mut().insert(own_process_source());
    let headers = again.headers_mut();
    headers.insert("idempotency-key", HeaderValue::from_static("k"));
    assert_eq!(stage.send(again).await.success_json()["id"], turn["id"]);
}

#[tokio::test]
async fn a_key_must_be_one() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let long = "x".repeat(256);
    for key in ["", "  ", long.as_str(), "kéy"] {
        let answer = submit(&stage, &session, key, "echo hi").await;
        let (status, kind, message) = answer.error();
        assert_eq!((status, kind.as_str()), (400, "invalid"), "{key:?}");
        assert!(message.contains("Idempotency-Key"), "{message}");
    }
    let path = format!("/api/sessions/{session}/turns");
    let mut two = request(Method::POST, &path, Some(json!({"input": "echo hi"})));
    for key in ["a", "b"] {
        let value = HeaderValue::from_static(key);
        two.headers_mut().append("idempotency-key", value);
    }
    assert_eq!(stage.send(two).await.error().0, 400);
    assert_eq!(turns(&stage).await, 0);
    submit(&stage, &session, &long[1..], "echo hi").await.success_json();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_run_the_agent_once() {
    let stage = std::sync::Arc::new(ApiHarness::new());
    let session = stage.session().await;
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        let (stage, session) = (stage.clone(), session.clone());
        requests.spawn(async move { submit(&stage, &session, "k", "held echo hi").await });
    }
    let answers = requests.join_all().await;
    let first = answers.iter().filter(|answer| !is_repeat(answer));
    assert_eq!(first.count(), 1);
    let answers: Vec<Value> = answers.iter().map(ApiResponse::success_json).collect();
    let turn = answers[0]["id"].as_str().unwrap();
    assert!(answers.iter().all(|answer| answer["id"] == turn));
    stage.permits.add_permits(50);
    stage.wait_for_status(turn, "completed").await;
    assert_eq!(turns(&stage).await, 1);
    assert_eq!(stage.runs(), 1);
}
