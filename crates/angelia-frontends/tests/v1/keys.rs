//! Access to models and agents by API key.

use angelia_core::{engine::EngineLimits, model::Usage};
use angelia_frontends::http::{AllowedModels, CallerLimits, Grant, dialect::ModelSettings};
use axum::body::Body;
use serde_json::json;

use crate::harness::{DEADLINE, ModelApiHarness, ModelApiRequest, full_grant, get, key, user};

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
                        providers: AllowedModels::Only(Vec::new()),
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
    let caller = run.turn.options.caller.as_deref().unwrap();
    assert!(caller.starts_with("key:narrow#"), "{caller}");
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

/// Requests at once would all see the same free money, so each reserves a share of it.
#[tokio::test]
async fn requests_at_once_do_not_overrun_what_a_key_may_cost() {
    let stage = stage(true);
    let requests: Vec<_> = (0..24)
        .map(|n| ModelApiRequest::new([user(&format!("at once {n}"))]).with_token("key-narrow"))
        .map(|ask| stage.send(&ask))
        .collect();
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(stage.run().await);
    }
    for run in runs {
        let usage = Usage { cost_usd: Some(0.04), ..Usage::default() };
        let event = angelia_core::model::EventKind::Usage(usage);
        run.emit(vec![angelia_core::ports::AgentEvent::Event(event)]).await;
        run.complete("done");
    }
    let mut statuses = Vec::new();
    for request in requests {
        let answer = request.await.unwrap();
        if answer.status == 429 {
            assert!(answer.error().contains("reserved"), "{answer:?}");
            assert_eq!(answer.headers["retry-after"], "10");
        }
        statuses.push(answer.status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [[200].repeat(10), [429].repeat(14)].concat());
    // Ten turns have cost 0.4 of 0.5 dollars, so there is room again.
    stage.run_turn(&ModelApiRequest::new([user("later")]).with_token("key-narrow"), "y").await;
}

/// One caller may have a quarter of all request bodies that are in memory.
#[tokio::test]
async fn large_requests_of_one_key_wait_and_those_of_another_do_not() {
    let stage = ModelApiHarness::with_settings(
        |models| {
            let keys = ["greedy", "polite"];
            models.keys =
                keys.map(|name| key(name, &format!("key-{name}"), full_grant())).to_vec().into();
        },
        EngineLimits::default(),
    )
    .with_caller_limits(CallerLimits::new(64, 4 << 20));
    let large = "x".repeat(700_000);
    let ask = |name: &str| ModelApiRequest::new([user(&large)]).with_token(&format!("key-{name}"));
    let first = stage.send(&ask("greedy"));
    let run = stage.run().await;
    let refused = stage.send_and_wait(&ask("greedy")).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.error().contains("in flight"), "{refused:?}");
    stage.run_turn(&ask("polite"), "y").await;
    run.complete("done");
    assert_eq!(first.await.unwrap().status, 200);
    stage.run_turn(&ask("greedy"), "y").await;
}

/// Large requests of one caller are read one after another, so those that wait take no memory.
#[tokio::test]
async fn large_requests_of_one_key_at_once_are_all_answered() {
    let stage = stage(false).with_caller_limits(CallerLimits::new(64, 4 << 20));
    let ask = ModelApiRequest::messages([user(&"x".repeat(700_000))]).with("model", "nothing/x");
    let requests: Vec<_> = (0..8).map(|_| stage.send(&ask)).collect();
    for request in requests {
        let answer = tokio::time::timeout(DEADLINE, request).await.unwrap().unwrap();
        assert_eq!(answer.status, 404, "{answer:?}");
    }
}

#[tokio::test]
async fn a_key_made_again_under_a_revoked_name_is_another_key() {
    let stage = stage(false);
    let limited = Grant { max_cost_usd_per_day: Some(0.5), ..full_grant() };
    let rename = |secret| {
        let keys = vec![key("bot", secret, limited.clone())].into();
        let models = stage.state.models.current();
        stage.state.models.replace(ModelSettings { keys, ..(*models).clone() });
    };
    rename("first");
    let ask = |text: &str, secret: &str| {
        ModelApiRequest::responses(json!({"model": "puppet/wood", "input": text}))
            .header("idempotency-key", "same")
            .with_token(secret)
    };
    let answer = stage.send(&ask("one", "first"));
    let run = stage.run().await;
    let usage = Usage { cost_usd: Some(0.6), ..Usage::default() };
    let event = angelia_core::model::EventKind::Usage(usage);
    run.emit(vec![angelia_core::ports::AgentEvent::Event(event)]).await;
    run.complete("dear");
    let first = answer.await.unwrap();
    let id = first.json()["id"].as_str().unwrap().to_owned();

    rename("second");
    // Its budget is unspent, its idempotency keys are new, and its history is its own.
    let second = stage.run_turn(&ask("one", "second"), "again").await;
    assert_ne!(second.session(), first.session());
    let next = ModelApiRequest::responses(
        json!({"model": "puppet/wood", "input": "two", "previous_response_id": id}),
    );
    assert_eq!(stage.send_and_wait(&next.with_token("second")).await.status, 404);
    let shown = get(&format!("/v1/responses/{id}")).header("x-api-key", "second");
    assert_eq!(stage.raw(shown.body(Body::empty()).unwrap()).await.status, 404);
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
