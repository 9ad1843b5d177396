//! A turn as server-sent events: whole, resumed anywhere, with many and with slow viewers.

use axum::{body::Body, http::Method};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::harness::{ApiHarness, ApiResponse, DEADLINE, request};

/// Returns each event as it was sent, without keep-alives.
fn frames(stream: &str) -> Vec<&str> {
    let frames = stream.split_inclusive("\n\n");
    frames.filter(|frame| !frame.starts_with(':')).collect()
}

#[tokio::test]
async fn every_event_has_its_number_its_type_and_its_json() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "held words 5").await;
    let path = format!("/api/turns/{turn}/events");
    let response = stage.router.clone();
    let response = response.oneshot(request(Method::GET, &path, None)).await;
    stage.permits.add_permits(1);
    let answer = ApiResponse::read(response.unwrap()).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["cache-control"], "no-store");
    let frames = frames(&answer.text);
    // Started, five deltas, the block, a notice, usage, the end.
    assert_eq!(frames.len(), 10, "{}", answer.text);
    for (index, frame) in frames.iter().enumerate() {
        let lines: Vec<_> = frame.lines().collect();
        let json: serde_json::Value =
            serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(lines[0], format!("id: {}", index + 1));
        assert_eq!(lines[1], format!("event: {}", json["type"].as_str().unwrap()));
        assert_eq!(json["seq"], index + 1);
        assert_eq!(json["turn_id"], *turn);
        assert_eq!(json["session_id"], *session);
        assert_eq!(lines.len(), 4);
    }
    assert!(frames[9].contains("event: turn.finished"));
}

/// Events are read while the turn runs, or afterwards from the store, which has no deltas.
#[tokio::test]
async fn resuming_after_any_number_gives_the_very_same_tail() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "ask").await;
    stage.wait_for_status(&turn, "awaiting_approval").await;
    // Resume live, from every number that exists and from some that do not exist yet.
    let mut approval = String::new();
    let path = format!("/api/turns/{turn}/events");
    let live: Vec<_> = (0..5).map(|after| stage.events(&turn, after)).collect();
    let live = futures_util::future::join_all(live);
    let decide = async {
        let mut body = open(&stage, &path).await;
        while !approval.contains("approval_id") {
            approval.push_str(&chunk(&mut body).await);
        }
        let id = approval.split(r#""approval_id":""#).nth(1).unwrap();
        let id = id.split('"').next().unwrap();
        let verdict = serde_json::json!({"verdict": "once"});
        stage.post(&format!("/api/approvals/{id}"), verdict).await;
    };
    let (live, ()) = tokio::join!(live, decide);
    let whole = frames(&live[0]);
    assert_eq!(whole.len(), 4, "{}", live[0]);
    for (after, tail) in live.iter().enumerate() {
        assert_eq!(frames(tail), whole[after.min(whole.len())..], "live after {after}");
    }
    stage.wait_for_status(&turn, "completed").await;
    for after in 0..=whole.len() {
        let stored = stage.events(&turn, after as u64).await;
        assert_eq!(frames(&stored), whole[after..], "stored after {after}");
    }
}

#[tokio::test]
async fn a_replay_leaves_out_only_deltas() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "held words 5").await;
    let path = format!("/api/turns/{turn}/events");
    let body = open(&stage, &path).await;
    stage.permits.add_permits(1);
    let live = rest(body).await;
    let live = frames(&live);
    // The most recent turns stay in memory with their deltas; after some more turns, this one comes
    // from the store.
    let stored = async {
        loop {
            let stored = stage.events(&turn, 0).await;
            if !stored.contains("text.delta") {
                return stored;
            }
            let later = stage.submit(&session, "echo hi").await;
            stage.wait_for_status(&later, "completed").await;
        }
    };
    let stored = timeout(DEADLINE, stored).await.unwrap();
    let kept: Vec<_> =
        live.iter().filter(|one| !one.contains("event: text.delta")).copied().collect();
    assert_eq!(frames(&stored), kept);
    for after in 0..10_u64 {
        let seq = |frame: &&&str| {
            let id = frame.strip_prefix("id: ").unwrap().lines().next().unwrap();
            id.parse::<u64>().unwrap() > after
        };
        let tail: Vec<_> = kept.iter().filter(seq).copied().collect();
        assert_eq!(frames(&stage.events(&turn, after).await), tail, "after {after}");
    }
}

#[tokio::test]
async fn the_header_wins_over_the_address_and_the_end_is_said_plainly() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "echo hi").await;
    stage.wait_for_status(&turn, "completed").await;
    let resumed = async |id: &str| {
        let path = format!("/api/turns/{turn}/events?after=1");
        let mut request = request(Method::GET, &path, None);
        request.headers_mut().insert("last-event-id", id.parse().unwrap());
        stage.send(request).await
    };
    assert!(resumed("0").await.text.contains("id: 1\n"));
    assert!(!resumed("").await.text.contains("id: 1\n"));
    assert!(!resumed("3").await.text.contains("id: 3\n"));
    // Started, delta, block, end: a browser that reconnects after the end is told not to retry.
    for over in ["4", "99"] {
        let answer = resumed(over).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    }
    for wrong in ["x", "-1", "1.5"] {
        assert_eq!(resumed(wrong).await.error().0, 400);
    }
    let unknown = "/api/turns/00000000-0000-0000-0000-000000000009/events";
    assert_eq!(stage.call(Method::GET, unknown, None).await.error().0, 404);
    let wrong = format!("/api/turns/{turn}/events?after=x");
    assert_eq!(stage.call(Method::GET, &wrong, None).await.error().0, 400);
}

async fn open(stage: &ApiHarness, path: &str) -> Body {
    let request = request(Method::GET, path, None);
    let response = stage.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    response.into_body()
}

async fn chunk(body: &mut Body) -> String {
    let frame = timeout(DEADLINE, body.frame()).await.unwrap().unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

/// Reads to the end of the turn.
async fn rest(mut body: Body) -> String {
    let mut seen = String::new();
    while let Some(frame) = timeout(DEADLINE, body.frame()).await.unwrap() {
        seen.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
    }
    seen
}

#[tokio::test]
async fn fifty_viewers_see_the_same() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "held words 400").await;
    let path = format!("/api/turns/{turn}/events");
    let mut viewers = Vec::new();
    for _ in 0..50 {
        viewers.push(rest(open(&stage, &path).await));
    }
    stage.permits.add_permits(1);
    let seen = futures_util::future::join_all(viewers).await;
    let whole = frames(&seen[0]);
    assert_eq!(whole.len(), 405);
    for viewer in &seen {
        assert_eq!(frames(viewer), whole);
    }
}

#[tokio::test]
async fn a_viewer_that_does_not_read_slows_nobody_and_misses_nothing() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "held words 2000").await;
    let path = format!("/api/turns/{turn}/events");
    let mut slow = open(&stage, &path).await;
    let mut seen = chunk(&mut slow).await;
    let quick = rest(open(&stage, &path).await);
    stage.permits.add_permits(1);
    // The turn ends, and a fast viewer reads all of it, while the slow viewer reads nothing.
    let quick = quick.await;
    stage.wait_for_status(&turn, "completed").await;
    seen.push_str(&rest(slow).await);
    assert_eq!(frames(&seen), frames(&quick));
    assert_eq!(frames(&seen).len(), 2005);
}

#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_keep_alives() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let turn = stage.submit(&session, "hang").await;
    let path = format!("/api/turns/{turn}/events");
    let mut body = open(&stage, &path).await;
    while !chunk(&mut body).await.contains("turn.started") {}
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(chunk(&mut body).await, ": keep-alive\n\n");
    }
    assert_eq!(began.elapsed().as_secs(), 45);
    stage.call(Method::POST, &format!("/api/turns/{turn}/interrupt"), None).await;
    assert!(chunk(&mut body).await.contains("event: turn.finished"));
    assert!(timeout(DEADLINE, body.frame()).await.unwrap().is_none());
}
