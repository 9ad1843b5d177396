//! Turns: from the request to the outcome, approvals, interrupts, the queue.

use angelia_core::engine::EngineLimits;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{ApiHarness, own_process_source, request};

#[tokio::test]
async fn a_turn_is_accepted_at_once_and_told_to_its_end() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let path = format!("/api/sessions/{session}/turns");
    let answer = stage.call(Method::POST, &path, Some(json!({"input": "words 3"}))).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let accepted = answer.json();
    assert_eq!(accepted["session_id"], *session);
    assert_eq!(accepted["status"], "running");
    assert_eq!(accepted.as_object().unwrap().len(), 3);

    let turn = stage.wait_for_status(accepted["id"].as_str().unwrap(), "completed").await;
    assert_eq!(turn["text"], "word0 word1 word2 ");
    assert_eq!(turn["reason"], "end_turn");
    assert_eq!(turn["usage"]["output_tokens"], 3);
    assert_eq!(turn["failure"], json!(null));
    assert_eq!(turn["input"], json!([{"type": "text", "text": "words 3"}]));
    assert!(turn["finished_at"].is_string());

    let failed = stage.submit(&session, "fail").await;
    let failed = stage.wait_for_status(&failed, "failed").await;
    let failure =
        json!({"kind": "auth", "message": "not logged in", "hint": "log in", "retry_after": null});
    assert_eq!(failed["failure"], failure);
}

#[tokio::test]
async fn blocks_carry_text_and_images() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let path = format!("/api/sessions/{session}/turns");
    let image = json!({"type": "image", "media_type": "image/png", "data": "aGVsbG8="});
    let body = json!({"input": [image, {"type": "text", "text": "what is this?"}]});
    let turn = stage.post(&path, body).await;
    let turn = stage.wait_for_status(turn["id"].as_str().unwrap(), "completed").await;
    assert_eq!(turn["text"], "2 blocks");
    assert_eq!(
        turn["input"],
        json!([{"type": "image", "media_type": "image/png", "bytes": 5}, {"type": "text", "text": "what is this?"}])
    );
}

#[tokio::test]
async fn who_will_not_answer_is_not_asked() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let path = format!("/api/sessions/{session}/turns");
    let turn = stage.post(&path, json!({"input": "ask", "can_ask": false})).await;
    let turn = stage.wait_for_status(turn["id"].as_str().unwrap(), "completed").await;
    let text = turn["text"].as_str().unwrap();
    assert!(text.starts_with("deny ") && text.ends_with("by nobody"), "{text}");
}

#[tokio::test]
async fn an_interrupt_ends_a_turn_and_comes_too_late_afterwards() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    for body in [None, Some(json!({})), Some(json!({"kill": true}))] {
        let turn = stage.submit(&session, "hang").await;
        let path = format!("/api/turns/{turn}/interrupt");
        let answer = stage.call(Method::POST, &path, body).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        assert_eq!(answer.json()["id"], *turn);
        stage.wait_for_status(&turn, "interrupted").await;
        let (status, kind, _) = stage.call(Method::POST, &path, None).await.error();
        assert_eq!((status, kind.as_str()), (409, "conflict"));
    }
    let unknown = "/api/turns/00000000-0000-0000-0000-000000000009/interrupt";
    assert_eq!(stage.call(Method::POST, unknown, None).await.error().0, 404);
}

#[tokio::test]
async fn words_for_a_running_turn_reach_it_or_become_the_next() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "listen").await;
    let steer = |turn: &str| format!("/api/turns/{turn}/steer");
    let body =
        json!({"input": [{"type": "text", "text": "left!"}, {"type": "text", "text": "now"}]});
    let answer = stage.call(Method::POST, &steer(&turn), Some(body)).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_eq!(answer.json(), json!({"status": "passed"}));
    let told = stage.wait_for_status(&turn, "completed").await["text"].to_string();
    assert!(told.contains("left!") && told.contains("now"), "{told}");
    let events = stage.events(&turn, 0).await;
    assert!(events.contains(r#""code":"steered""#), "{events}");

    // A turn that is being stopped accepts no more input.
    let turn = stage.submit(&session, "linger").await;
    let interrupt = format!("/api/turns/{turn}/interrupt");
    stage.call(Method::POST, &interrupt, None).await.success_json();
    let body = json!({"input": "echo later"});
    let queued = stage.post(&steer(&turn), body.clone()).await;
    assert_eq!(queued["status"], "queued");
    assert_eq!(queued.as_object().unwrap().len(), 2);
    let next = queued["turn_id"].as_str().unwrap();
    assert_ne!(next, turn);
    stage.permits.add_permits(1);
    assert_eq!(stage.wait_for_status(next, "completed").await["text"], "later");
    stage.wait_for_status(&turn, "interrupted").await;

    let late = stage.call(Method::POST, &steer(&turn), Some(body.clone())).await;
    let (status, kind, _) = late.error();
    assert_eq!((status, kind.as_str()), (409, "conflict"));
    let unknown = steer("00000000-0000-0000-0000-000000000009");
    let unknown = stage.call(Method::POST, &unknown, Some(body)).await;
    assert_eq!(unknown.error().0, 404);
    let empty = stage.call(Method::POST, &steer(&turn), Some(json!({"input": " "}))).await;
    assert_eq!(empty.error().0, 400);
}

#[tokio::test]
async fn a_full_queue_is_too_many_requests() {
    let limits = EngineLimits { max_queued_turns: 2, ..EngineLimits::default() };
    let stage = ApiHarness::with_limits(limits);
    let session = stage.session().await;
    let path = format!("/api/sessions/{session}/turns");
    let running = stage.submit(&session, "hang").await;
    // The session actor removes the first turn from the queue a little later.
    let mut queued: Vec<Value> = Vec::new();
    let full = loop {
        let answer = stage.call(Method::POST, &path, Some(json!({"input": "echo hi"}))).await;
        if answer.status != StatusCode::ACCEPTED {
            break answer;
        }
        queued.push(answer.json());
        assert!(queued.len() <= 2);
    };
    let (status, kind, message) = full.error();
    assert_eq!((status, kind.as_str()), (429, "rate_limited"), "{message}");
    assert_eq!(queued.len(), 2);
    assert_eq!(queued[0]["status"], "queued");
    stage.call(Method::POST, &format!("/api/turns/{running}/interrupt"), None).await;
    for turn in queued {
        stage.wait_for_status(turn["id"].as_str().unwrap(), "completed").await;
    }
}

#[tokio::test]
async fn only_the_owners_terminal_speaks_as_the_owner() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let path = format!("/api/sessions/{session}/turns");
    let said = async |socket: bool, terminal: bool| {
        let mut request = request(Method::POST, &path, Some(json!({"input": "origin"})));
        if socket {
            request.extensions_mut().insert(own_process_source());
        }
        if terminal {
            let headers = request.headers_mut();
            headers.insert("x-angelia-terminal", "1".parse().unwrap());
        }
        let turn = stage.send(request).await.success_json();
        let turn = stage.wait_for_status(turn["id"].as_str().unwrap(), "completed").await;
        turn["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(said(false, false).await, "remote true");
    assert_eq!(said(false, true).await, "remote true");
    assert_eq!(said(true, false).await, "remote true");
    assert_eq!(said(true, true).await, "owner true");
}

#[tokio::test]
async fn nothing_is_taken_on_while_shutting_down() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "hang").await;
    let events = stage.events(&turn, 0);
    let (events, ()) = tokio::join!(events, stage.state.engine.shutdown());
    assert!(events.contains("event: turn.finished"), "{events}");
    let path = format!("/api/sessions/{session}/turns");
    let refused = stage.call(Method::POST, &path, Some(json!({"input": "echo hi"}))).await;
    let (status, kind, _) = refused.error();
    assert_eq!((status, kind.as_str()), (503, "busy"));
}
