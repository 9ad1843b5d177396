//! Access to models and agents by API key.

use angelia_core::{engine::EngineLimits, model::Usage};
use angelia_frontends::http::{AllowedModels, Grant};
use axum::body::Body;

use crate::harness::{ModelApiHarness, ModelApiRequest, full_grant, get, key, user};

fn stage(agent_mode: bool) -> ModelApiHarness {
    ModelApiHarness::with_settings(
        |models| {
            models.agent_mode = agent_mode;
            models.keys = vec![
                key("all", "key-all", full_grant()),
                key(
                    "narrow",
                    "key-narrow",
                    Grant {
                        profiles: AllowedModels::Only(vec!["puppet".into()]),
                        agent_mode: false,
                        max_cost_usd_per_day: Some(0.5),
                    },
                ),
            ]
            .into();
        },
        EngineLimits::default(),
    )
}

#[tokio::test]
async fn without_a_key_nothing_is_had_and_with_one_only_the_model_apis() {
    let stage = stage(false);
    let none = stage.send_and_wait(&ModelApiRequest::new([user("x")]).with_token("wrong")).await;
    assert_eq!(none.status, 401);
    assert!(none.json()["error"]["message"].is_string(), "{none:?}");
    stage.run_turn(&ModelApiRequest::new([user("x")]).with_token("key-all"), "y").await;
    let api = get("/api/sessions").header("x-api-key", "key-all");
    let answer = stage.raw(api.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn agents_are_closed_until_the_setting_and_the_key_open_them() {
    let closed = stage(false);
    for id in ["work", "puppet-agent/wood", "puppet-cli/wood"] {
        let answer = closed
            .send_and_wait(
                &ModelApiRequest::new([user("x")]).with("model", id).with_token("key-all"),
            )
            .await;
        assert_eq!(answer.status, 403, "{id}");
        assert!(answer.error().contains("http.agent_mode: true"), "{answer:?}");
    }
    let open = stage(true);
    for id in ["work", "puppet-agent/wood", "puppet-cli/wood"] {
        open.run_turn(
            &ModelApiRequest::new([user("x")]).with("model", id).with_token("key-all"),
            "y",
        )
        .await;
    }
    let narrow = ModelApiRequest::new([user("x")])
        .with("model", "puppet-agent/wood")
        .with_token("key-narrow");
    assert_eq!(open.send_and_wait(&narrow).await.status, 403);
}

#[tokio::test]
async fn a_key_has_what_it_allows_and_no_more_than_it_may_cost() {
    let stage = stage(true);
    let ask = ModelApiRequest::new([user("x")]).with_token("key-narrow");
    assert_eq!(stage.send_and_wait(&ask.clone().with("model", "work")).await.status, 403);
    let answer = stage.send(&ask);
    let run = stage.run().await;
    assert_eq!(run.turn.options.caller.as_deref(), Some("key:narrow"));
    assert_eq!(run.turn.options.max_cost_usd, Some(0.5));
    let usage = Usage { cost_usd: Some(0.6), ..Usage::default() };
    let event = angelia_core::model::EventKind::Usage(usage);
    run.emit(vec![angelia_core::ports::AgentEvent::Event(event)]).await;
    run.complete("dear");
    assert_eq!(answer.await.unwrap().status, 200);
    let answer = stage.send_and_wait(&ask).await;
    assert_eq!(answer.status, 429);
    assert!(answer.error().contains("max_cost_usd_per_day"), "{answer:?}");
}

#[tokio::test]
async fn unknown_models_are_404_in_each_dialect() {
    let stage = stage(false);
    let chat =
        stage.send_and_wait(&ModelApiRequest::new([user("x")]).with("model", "nothing/x")).await;
    assert_eq!(chat.status, 404);
    let aliased = ModelApiHarness::with_settings(
        |models| {
            models.aliases.insert("gpt-9".into(), "puppet/oak".into());
        },
        EngineLimits::default(),
    );
    let answer = aliased.send(&ModelApiRequest::new([user("x")]).with("model", "gpt-9"));
    let run = aliased.run().await;
    assert_eq!(run.spec.model.as_deref(), Some("oak"));
    run.complete("y");
    let answer = answer.await.unwrap();
    assert_eq!(answer.json()["model"], "gpt-9");
    let answer = aliased.send(&ModelApiRequest::new([user("x")]).with("model", "wood-7"));
    let run = aliased.run().await;
    assert_eq!(run.spec.model.as_deref(), Some("wood-7"));
    run.complete("y");
    answer.await.unwrap();
}
