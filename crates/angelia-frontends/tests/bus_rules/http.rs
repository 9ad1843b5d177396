//! `/api/bus`: sending, listing and following over HTTP.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts},
    model::bus::BusMessage,
    task::TaskGroup,
};
use angelia_frontends::http::{
    ApiState, BrowserLogins, BusApi, CallerLimits, ChangeFeed, ConnectionSource, Metrics,
    OwnerToken,
    dialect::{LiveModels, RecentRequests},
    router,
};
use angelia_frontends::socket::{LocalCaller, TcpPeer};
use angelia_testkit::lexical_paths::LexicalPaths;
use angelia_testkit::memory_store::MemoryStore;
use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};
use tower::ServiceExt as _;

use super::{
    context::AnyProfile,
    fakes::{CountingClock, RecordingBus},
    fixed_config::fixed_config,
    no_agents::{daemon_info, no_agents, no_processes},
};

struct BusApiHarness {
    router: Router,
    published: mpsc::Receiver<BusMessage>,
    tasks: TaskGroup,
}

fn bus_api_harness(with_bus: bool) -> BusApiHarness {
    let (sent, published) = mpsc::channel(64);
    let (heard, _) = broadcast::channel(2);
    let (dead_letters, _dead) = mpsc::channel(1);
    let bus = RecordingBus { published: sent, dead_letters, seen: vec!["alice"] };
    let tasks = TaskGroup::new();
    let engine = Engine::new(EngineParts {
        store: Arc::new(MemoryStore::new()),
        clock: Arc::new(CountingClock::default()),
        paths: Arc::new(LexicalPaths::default()),
        edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
        session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
        executors: Vec::new(),
        limits: EngineLimits::default(),
        tasks: TaskGroup::new(),
    });
    let state = ApiState {
        logins: BrowserLogins::new(engine.clone()),
        feed: ChangeFeed::default(),
        engine,
        profiles: Arc::new(AnyProfile),
        token: OwnerToken::new("tok"),
        agents: no_agents(),
        agent_processes: no_processes(),
        daemon: daemon_info(),
        version: "1".into(),
        config_sha256: "c".into(),
        config: fixed_config(),
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        models: LiveModels::default(),
        recent_requests: RecentRequests::default(),
        caller_limits: CallerLimits::default(),
        metrics: Metrics::default(),
        tasks: tasks.clone(),
        restarts: angelia_frontends::http::RestartRequests::new().0,
        bus: with_bus.then(|| BusApi {
            bus: Arc::new(bus),
            incoming: heard,
            clock: Arc::new(CountingClock::default()),
        }),
        delivery_queue: None,
        chats: None,
        hooks: None,
    };
    BusApiHarness { router: router(Arc::new(state)), published, tasks }
}

impl BusApiHarness {
    async fn request_json(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let response = self.send_request(method, path, body).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    async fn send_request(
        &self,
        method: &str,
        path: &str,
        body: Value,
    ) -> axum::response::Response {
        let local: SocketAddr = "127.0.0.1:4376".parse().unwrap();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:4376")
            .header("authorization", "Bearer tok")
            .extension(ConnectionSource::Tcp(TcpPeer::identified(local, LocalCaller::Owner)))
            .body(Body::from(body.to_string()))
            .unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
}

#[tokio::test]
async fn a_message_is_sent_and_its_fate_told() {
    let mut stage = bus_api_harness(true);
    let body = json!({"to": "bob", "text": "-hi", "type": "ask", "channel": "x:1", "id": "m-7"});
    let (status, answer) = stage.request_json("POST", "/api/bus/messages", body).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(
        answer,
        json!({"id": "m-7", "status": "accepted", "queued": false, "seen": true, "repeated": false})
    );
    let message = stage.published.recv().await.unwrap();
    assert!(!message.verified, "nobody proved the name");
    let envelope: Value = serde_json::from_slice(&message.envelope).unwrap();
    assert_eq!((&envelope["to"], &envelope["from"]), (&json!("bob"), &json!("api")));
    assert_eq!(envelope["body"], json!({"text": "-hi", "type": "ask", "channel": "x:1"}));
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let mut stage = bus_api_harness(true);
    for body in [
        json!({"text": "hi"}),
        json!({"to": "", "text": "hi"}),
        json!({"to": "bob"}),
        json!({"to": "bob", "text": "a", "body": 1}),
        json!({"to": "bob", "body": [1], "type": "t"}),
        json!({"to": "bob", "text": "a", "from": "a\u{1b}b"}),
        json!({"to": "bob", "text": "a", "colour": "red"}),
    ] {
        let (status, answer) = stage.request_json("POST", "/api/bus/messages", body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {answer}");
    }
    assert!(stage.published.try_recv().is_err());
}

#[tokio::test]
async fn endpoints_are_a_list_and_no_bus_is_said() {
    let (status, answer) =
        bus_api_harness(true).request_json("GET", "/api/bus/endpoints", Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    let alice = json!({"id": "alice", "listening": false, "session_id": null, "queued": 0});
    assert_eq!(answer, json!({"data": [alice], "next": null}));
    for (method, path) in [("GET", "endpoints"), ("GET", "events"), ("POST", "messages")] {
        let path = format!("/api/bus/{path}");
        let body = json!({"to": "a", "text": "b"});
        let (status, answer) = bus_api_harness(false).request_json(method, &path, body).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    }
}

#[tokio::test]
async fn messages_can_be_followed_until_the_daemon_stops() {
    let stage = bus_api_harness(true);
    let events = stage.send_request("GET", "/api/bus/events", Value::Null).await;
    let mut events = events.into_body();
    for text in ["one", "two", "three"] {
        let body = json!({"to": "bob", "text": text});
        stage.request_json("POST", "/api/bus/messages", body).await;
    }
    let mut text = String::new();
    while !text.contains("three") {
        let frame = tokio::time::timeout(Duration::from_secs(30), events.frame());
        let data = frame.await.unwrap().unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&data).unwrap());
    }
    assert!(text.starts_with("event: lagged\ndata: {\"missed\":1}\n\n"), "{text}");
    assert!(text.contains("event: message\n") && text.contains("\"verified\":false"), "{text}");
    stage.tasks.stop_token().cancel();
    assert!(events.frame().await.is_none());
}
