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
    let session = stage.session().await;
    let done = stage.submit(&session, "words 3").await;
    stage.wait_for_status(&done, "completed").await;
    let text = metrics(&stage).await;
    let mut typed = Vec::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed.push(name.to_owned());
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_typed = |name: &str| typed.iter().any(|known| known == name);
            assert!(is_typed(name) || family.is_some_and(is_typed), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[tokio::test]
async fn usage_and_the_first_word_are_counted_by_executor() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    for prompt in ["words 3", "echo hello"] {
        let done = stage.submit(&session, prompt).await;
        stage.wait_for_status(&done, "completed").await;
    }
    let silent = stage.submit(&session, "fail").await;
    stage.wait_for_status(&silent, "failed").await;
    let text = metrics(&stage).await;
    for line in [
        "angelia_first_word_seconds_count{executor=\"puppet\"} 2",
        "angelia_first_word_seconds_bucket{executor=\"puppet\",le=\"+Inf\"} 2",
        "angelia_first_word_seconds_bucket{executor=\"puppet\",le=\"60\"} 2",
        "angelia_cost_usd_total{executor=\"puppet\"} 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
    }
    for kind in ["input", "output", "cache_read", "cache_write"] {
        let series = format!("angelia_tokens_total{{executor=\"puppet\",kind=\"{kind}\"}} ");
        assert!(text.contains(&series), "{text}");
    }
}
