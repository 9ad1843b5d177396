//! `GET /v1/models` in three shapes.

use axum::body::Body;
use insta::assert_json_snapshot;

use crate::harness::{ModelApiHarness, TOKEN, get};

async fn list(stage: &ModelApiHarness, path: &str, headers: &[(&str, &str)]) -> serde_json::Value {
    let mut request = get(path).header("x-api-key", TOKEN);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = stage.raw(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn models_are_listed_as_the_caller_expects() {
    let stage = ModelApiHarness::new();
    let anthropic = [("anthropic-version", "2026-10-21")];
    assert_json_snapshot!("openai", list(&stage, "/v1/models", &[]).await);
    assert_json_snapshot!("anthropic", list(&stage, "/v1/models?limit=1", &anthropic).await);
    assert_json_snapshot!("codex", list(&stage, "/v1/models?client_version=0.166.0", &[]).await);
    let next = list(&stage, "/v1/models?after_id=puppet/wood", &anthropic).await;
    assert_eq!(next["data"][0]["id"], "puppet/oak");
    let one = list(&stage, "/v1/models/puppet/wood", &[]).await;
    assert_eq!(one["id"], "puppet/wood");
    let missing = get("/v1/models/nothing").header("x-api-key", TOKEN);
    let missing = stage.raw(missing.body(Body::empty()).unwrap()).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn agents_are_listed_once_they_can_be_had() {
    let open = |models: &mut angelia_frontends::http::dialect::ModelSettings| {
        models.agent_mode = true;
    };
    let stage = ModelApiHarness::with_settings(open, angelia_core::engine::EngineLimits::default());
    let list = list(&stage, "/v1/models", &[]).await;
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let expected = ["puppet/wood", "puppet/oak", "puppet-agent/wood", "puppet-agent/oak", "work"];
    assert_eq!(ids, expected);
}
