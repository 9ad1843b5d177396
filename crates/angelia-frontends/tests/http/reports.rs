//! Status, agents, quotas, usage and search.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::ApiHarness;

fn ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_status_is_everything_at_a_glance() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let done = stage.submit(&session, "words 3").await;
    stage.wait_for_status(&done, "completed").await;
    let asks = stage.submit(&session, "ask").await;
    stage.wait_for_status(&asks, "awaiting_approval").await;
    let status = stage.get("/api/status").await;
    let daemon = &status["daemon"];
    assert_eq!((&daemon["running"], &daemon["version"]), (&json!(true), &json!("1.2.3")));
    assert_eq!(
        (&daemon["pid"], &daemon["address"]),
        (&json!(std::process::id()), &json!("127.0.0.1:4376"))
    );
    assert!(daemon["uptime_seconds"].is_u64(), "{daemon}");
    let config = json!({
        "path": "/home/owner/.angelia/config.yaml", "loaded_at": "1970-01-01T00:00:00.000000Z",
        "waiting": ["listen"], "error": null,
    });
    assert_eq!(daemon["config"], config);
    let agent = &status["agents"][0];
    assert_eq!((&agent["id"], &agent["session_id"]), (&json!(session), &json!(session)));
    assert_eq!((&agent["state"], &agent["executor"]), (&json!("busy"), &json!("puppet")));
    assert_eq!(stage.get("/api/agents").await["data"], status["agents"]);
    let turns = status["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[0]["id"]), (1, &json!(asks)));
    assert_eq!(status["approvals"][0]["turn_id"], asks);
    assert_eq!((&status["bus"], &status["quotas"]), (&Value::Null, &json!([])));
    assert_eq!(
        status["usage_today"]["turns"], 0,
        "these turns are long past by the clock of the test"
    );
    assert!(status["usage_today"]["input_tokens"].is_u64(), "{status}");
}

#[tokio::test]
async fn turns_are_filtered_by_status_and_time() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let done = stage.submit(&session, "words 3").await;
    stage.wait_for_status(&done, "completed").await;
    let hangs = stage.submit(&session, "hang").await;
    stage.wait_for_status(&hangs, "running").await;
    let list = async |query: &str| stage.get(&format!("/api/turns?{query}")).await;
    assert_eq!(ids(&list("status=running").await), [hangs.as_str()]);
    assert_eq!(ids(&list("status=completed,failed").await), [done.as_str()]);
    assert_eq!(ids(&list(&format!("status=parked&session={session}")).await), [""; 0]);
    let first = list("limit=1&since=1970-01-01T00:00:00Z").await;
    assert_eq!((ids(&first), &first["next"]), (vec![hangs.as_str()], &json!(hangs)));
    assert_eq!(ids(&list("since=2999-01-01T00:00:00Z").await), [""; 0]);
    let bad = stage.call(Method::GET, "/api/turns?since=yesterday", None).await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn usage_has_its_rows() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let done = stage.submit(&session, "words 3").await;
    stage.wait_for_status(&done, "completed").await;
    let rows = async |query: &str| stage.get(&format!("/api/usage?{query}")).await["data"].clone();
    for (by, key) in [
        ("session", json!(session)),
        ("executor", json!("puppet")),
        ("key", json!("owner")),
        ("model", json!("wood")),
    ] {
        let found = rows(&format!("from=1970-01-01T00:00:00Z&by={by}")).await;
        assert_eq!((&found[0]["key"], &found[0]["turns"]), (&key, &json!(1)), "{by}");
    }
    let hours = rows("from=1970-01-01T00:00:00Z&bucket=hour&by=profile").await;
    assert!(hours[0]["start"].as_str().unwrap().ends_with(":00"), "{hours}");
    for query in ["by=machine", "bucket=week", "from=now"] {
        let bad = stage.call(Method::GET, &format!("/api/usage?{query}"), None).await;
        assert_eq!(bad.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_search_finds_what_was_said() {
    let stage = ApiHarness::new();
    let session = stage.session().await;
    let done = stage.submit(&session, "echo the needle is 在这里").await;
    stage.wait_for_status(&done, "completed").await;
    let found = stage.get("/api/search?q=NEEDLE%20%E8%BF%99").await;
    let one = &found["data"][0];
    assert_eq!((&one["session_id"], &one["id"]), (&json!(session), &json!(done)));
    assert_eq!(one["speaker"], "agent");
    let (text, mark) = (one["snippet"].as_str().unwrap(), &one["marks"][0]);
    let range = |place: usize| usize::try_from(mark[place].as_u64().unwrap()).unwrap();
    assert_eq!(&text[range(0)..range(1)], "needle");
    for nothing in ["q=absent", "q=", ""] {
        assert_eq!(stage.get(&format!("/api/search?{nothing}")).await["data"], json!([]));
    }
}
