//! `/metrics`: counts of current work and of outcomes.

use axum::http::Method;
use serde_json::json;

use crate::harness::{ApiHarness, request};

async fn metrics(stage: &ApiHarness) -> String {
    let answer = stage.send(request(Method::GET, "/metrics", None)).await;
    assert_eq!(answer.status, 200);
    answer.text
}

#[tokio::test]
async fn turns_are_counted_by_how_they_ended() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let secret = "words 3";
    let done = stage.submit(&session, secret).await;
    stage.wait_for_status(&done, "completed").await;
    let hangs = stage.submit(&session, "hang").await;
    stage.wait_for_status(&hangs, "running").await;
    let waits = stage.submit(&session, "words 1").await;
    stage.wait_for_status(&waits, "queued").await;

    let text = metrics(&stage).await;
    for line in [
        "angelia_build_info{version=\"1.2.3\"} 1",
        "angelia_turns_finished_total{status=\"completed\"} 1",
        "angelia_turns{state=\"running\"} 1",
        "angelia_turns{state=\"queued\"} 1",
        "angelia_turns{state=\"awaiting_tool_result\"} 0",
        "angelia_agents{state=\"busy\"} 1",
        "angelia_sessions_live 1",
        "angelia_approvals_pending 0",
        "angelia_http_requests_total{path=\"/api/sessions\",status=\"202\"} 3",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
    }
    // The metrics contain no prompts, answers or names.
    for word in [&session, &done, secret] {
        assert!(!text.contains(word), "{text}");
    }

    for turn in [&waits, &hangs] {
        let path = format!("/api/turns/{turn}/interrupt");
        stage.post(&path, json!({})).await;
        stage.wait_for_status(turn, "interrupted").await;
    }
    let text = metrics(&stage).await;
    let line = "angelia_turns_finished_total{status=\"interrupted\"} 2";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("angelia_turns{state=\"running\"} 0"), "{text}");
}

#[tokio::test]
async fn it_is_what_prometheus_reads() {
    let stage = ApiHarness::new();
    let text = metrics(&stage).await;
    let mut typed = Vec::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed.push(name.to_owned());
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            assert!(typed.iter().any(|known| known == name), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
