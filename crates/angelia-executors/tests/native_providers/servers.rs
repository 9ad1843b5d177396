//! What servers say about themselves and their models.

use std::sync::Arc;

use angelia_core::{
    model::{FailureKind, SessionSpec},
    ports::LoginState,
};
use angelia_executors::native::{
    provider::Api,
    providers::{
        KeySource, KeyState, ModelWindow, Provider, ProviderCatalog, ProviderKey, WindowSource,
        check_provider, provider_health,
    },
};
use angelia_testkit::plain_server::{PlainAnswer, PlainServer};

use crate::place::{Place, provider};

fn json(body: &str) -> PlainAnswer {
    PlainAnswer::Json(200, body.to_owned())
}

async fn window(server: &PlainServer, api: Api, path: &str) -> ModelWindow {
    let provider = provider(api, format!("{}{path}", server.address()), Vec::new());
    ProviderCatalog::default().discover_window(&provider, None, "m").await
}

#[tokio::test]
async fn every_kind_of_server_is_asked_in_its_own_way() {
    let listing = r#"{"data":[{"id":"m","meta":{"n_ctx":4096}}]}"#;
    let plain = r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
    let shown = r#"{"parameters":"num_ctx 16384","model_info":{"llama.context_length":131072}}"#;
    let loaded = r#"{"data":[{"id":"m","loaded_context_length":8192}]}"#;
    let one = r#"{"id":"m","max_input_tokens":200000,"max_tokens":64000}"#;
    let cases = [
        ("llama.cpp, vLLM", Api::Chat, "/v1", vec![("GET /v1/models", json(listing))], 4_096, 1),
        (
            "Ollama",
            Api::Chat,
            "/v1",
            vec![("GET /v1/models", json(plain)), ("POST /api/show", json(shown))],
            16_384,
            2,
        ),
        (
            "LM Studio",
            Api::Responses,
            "/v1",
            vec![("GET /v1/models", json(plain)), ("GET /api/v0/models", json(loaded))],
            8_192,
            3,
        ),
        ("Messages", Api::Messages, "", vec![("GET /v1/models/m", json(one))], 200_000, 1),
    ];
    for (name, api, path, answers, context, requests) in cases {
        let server = PlainServer::start(answers);
        let found = window(&server, api, path).await;
        assert_eq!((found.context, found.source), (context, WindowSource::Server), "{name}");
        assert_eq!(server.requests().len(), requests, "{name}: {:?}", server.requests());
        if name == "Ollama" {
            assert!(server.requests()[1].ends_with(r#"{"model":"m"}"#), "{:?}", server.requests());
        }
    }
}

#[tokio::test]
async fn a_server_is_asked_once_and_one_that_says_nothing_costs_two_seconds_at_most() {
    let server = PlainServer::start([("GET /v1/models", PlainAnswer::Silence)]);
    let provider = provider(Api::Chat, format!("{}/v1", server.address()), Vec::new());
    let catalog = ProviderCatalog::default();
    for _ in 0..3 {
        let found = catalog.discover_window(&provider, None, "m").await;
        assert_eq!((found.context, found.source), (32_768, WindowSource::Assumed));
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_request_carries_the_key_and_the_headers_of_the_provider() {
    for (api, path, header) in [
        (Api::Messages, "", "x-api-key: the-key"),
        (Api::Chat, "/v1", "authorization: Bearer the-key"),
    ] {
        let server = PlainServer::start([]);
        let provider = provider(api, format!("{}{path}", server.address()), Vec::new());
        let key = ProviderKey::new("the-key").unwrap();
        ProviderCatalog::default().discover_window(&provider, Some(&key), "m").await;
        let request = &server.requests()[0];
        assert!(request.contains(header) && request.contains("x-team: blue"), "{request}");
        assert_eq!(request.contains("anthropic-version: "), api == Api::Messages, "{request}");
    }
}

fn keyed(server: &PlainServer) -> Provider {
    provider(Api::Chat, format!("{}/v1", server.address()), vec![KeySource::Env("KEY".into())])
}

#[tokio::test]
async fn a_check_says_whether_the_key_is_accepted_and_knows_the_windows() {
    let place = Place::new(&[("KEY", "the-key-of-the-test")]);
    let listing = r#"{"data":[{"id":"a","max_model_len":1000},{"id":"b","max_model_len":2000}]}"#;
    let server = PlainServer::start([("GET /v1/models", json(listing))]);
    let provider = keyed(&server);
    let models = ["a", "b"].map(Arc::from);
    let check = check_provider(&provider, &models, &place.host).await;
    assert!(check.reached.is_ok());
    assert!(matches!(&check.key, KeyState::Accepted(key) if key.expose() == "the-key-of-the-test"));
    let windows: Vec<u64> = check.models.iter().map(|(_, window)| window.context).collect();
    assert_eq!(windows, [1_000, 2_000]);
    assert_eq!(check.problem(&provider), None);
    assert_eq!(server.requests().len(), 1, "one request tells all of it");
}

#[tokio::test]
async fn a_check_says_what_is_wrong() {
    let place = Place::new(&[("KEY", "the-key-of-the-test")]);
    let refusal = r#"{"error":{"message":"Incorrect API key provided: the-key-of-the-test"}}"#;
    let refusing =
        PlainServer::start([("GET /v1/models", PlainAnswer::Json(401, refusal.to_owned()))]);
    let provider = keyed(&refusing);
    let problem = check_provider(&provider, &[], &place.host).await.problem(&provider).unwrap();
    assert_eq!(problem.kind, FailureKind::Auth);
    assert!(problem.message.contains("Incorrect API key"), "{problem}");
    assert!(!problem.message.contains("the-key-of-the-test"), "{problem}");

    // A server without such an address is there, and says nothing about the key.
    let other = PlainServer::start([]);
    let check = check_provider(&keyed(&other), &[], &place.host).await;
    assert_eq!((check.reached.is_ok(), check.key), (true, KeyState::Unknown));

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let provider = crate::place::provider(Api::Chat, format!("http://{closed}/v1"), Vec::new());
    let problem = check_provider(&provider, &[], &place.host).await.problem(&provider).unwrap();
    assert_eq!(problem.kind, FailureKind::Unavailable);
    assert!(problem.to_string().contains("no connection"), "{problem}");

    let silent = PlainServer::start([("GET /v1/models", PlainAnswer::Silence)]);
    let provider = keyed(&silent);
    let problem = check_provider(&provider, &[], &place.host).await.problem(&provider).unwrap();
    assert!(problem.message.contains("no answer within 2 s"), "{problem}");
}

#[tokio::test]
async fn health_asks_the_server_only_when_it_is_deep() {
    let place = Place::new(&[("KEY", "the-key-of-the-test")]);
    let refusal = r#"{"error":{"message":"no"}}"#.to_owned();
    let server = PlainServer::start([("GET /v1/models", PlainAnswer::Json(401, refusal))]);
    place.host.providers.replace([keyed(&server)], &place.host.environment);
    let mut spec = SessionSpec::new("native", "/");
    spec.model = Some("home/m".into());
    let health = provider_health(&spec, &place.host, false).await;
    assert!(health.is_ready(), "{health:?}");
    assert_eq!(health.login, LoginState::LoggedIn { lane: Some("api_key".into()) });
    assert!(server.requests().is_empty());
    let health = provider_health(&spec, &place.host, true).await;
    assert_eq!((health.is_ready(), health.login), (false, LoginState::LoggedOut));

    spec.model = Some("openai/gpt-5.5".into());
    let health = provider_health(&spec, &place.host, false).await;
    assert_eq!(health.login, LoginState::LoggedOut);
    assert!(health.problem.unwrap().message.contains("OPENAI_API_KEY"));
    spec.model = None;
    assert!(provider_health(&spec, &place.host, false).await.installation.is_none());
}
