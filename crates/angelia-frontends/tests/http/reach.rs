//! Tests which callers reach which route. The rows come from the `OpenAPI` document, so a new route
//! fails here until it is classified.

use angelia_frontends::{
    http::{AccessKey, AllowedModels, ConnectionSource, Grant, dialect::ModelSettings},
    socket::{LocalCaller, TcpPeer},
};
use axum::{
    body::Body,
    http::{Method, Request},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

use crate::harness::{
    ApiHarness, ApiResponse, LOCAL_ADDRESS, TOKEN, agent_mark, own_process_source,
};

const KEY: &str = "key-123";

/// The callers that reach a route: `+` is let through to the handler, `-` is refused.
///
/// Columns: the socket's owner, the socket's agent on its own session, on a session that it
/// delegated to, and on another one; over TCP the owner's token from this machine, the owner's
/// token from another one, the owner's token from an agent on another session, a browser's token, a
/// key, nothing.
const ROUTES: [(&str, &str, &str); 64] = [
    ("get", "/healthz", "++++ +++ +++"),
    ("get", "/readyz", "++++ +++ -+-"),
    // Everyone; the signature decides.
    ("post", "/hooks/{name}", "++++ +++ +++"),
    ("get", "/metrics", "++++ +++ -+-"),
    ("get", "/openapi.json", "++++ +++ -+-"),
    ("head", "/", "++++ +++ +++"),
    ("get", "/", "++++ +++ +++"),
    ("get", "/ui/{path}", "++++ +++ +++"),
    // Whoever has a code may use it.
    ("post", "/api/login", "++++ +++ +++"),
    ("post", "/api/login/codes", "+--- --- ---"),
    ("get", "/api/login/browsers", "+--- ++- +--"),
    ("delete", "/api/login/browsers/{browser}", "+--- ++- +--"),
    ("get", "/api/events", "+--- ++- +--"),
    ("head", "/api/hello", "++++ +++ +--"),
    ("get", "/api/profiles", "++++ +++ +--"),
    ("get", "/api/executors", "++++ +++ +--"),
    ("get", "/api/sessions", "+--- ++- +--"),
    // An agent may create sessions, of the profiles that its own may hand work to.
    ("post", "/api/sessions", "+--- ++- +--"),
    ("get", "/api/sessions/{session}", "+++- ++- +--"),
    ("patch", "/api/sessions/{session}", "+--- ++- +--"),
    ("delete", "/api/sessions/{session}", "+--- ++- +--"),
    ("post", "/api/sessions/{session}/fork", "+--- ++- +--"),
    ("post", "/api/sessions/{session}/compact", "+--- ++- +--"),
    ("post", "/api/sessions/{session}/turns", "+-+- ++- +--"),
    ("get", "/api/turns", "+--- ++- +--"),
    ("get", "/api/turns/{turn}", "+++- ++- +--"),
    ("get", "/api/turns/{turn}/events", "+++- ++- +--"),
    ("post", "/api/turns/{turn}/interrupt", "+-+- ++- +--"),
    ("post", "/api/turns/{turn}/steer", "+-+- ++- +--"),
    ("get", "/api/approvals", "+--- ++- +--"),
    ("post", "/api/approvals/{approval}", "+--- +-- +--"),
    ("get", "/api/audit", "+--- ++- +--"),
    ("get", "/api/config", "+--- ++- +--"),
    ("post", "/api/config/reload", "+--- +-- ---"),
    ("post", "/api/restart", "+--- +-- ---"),
    ("get", "/api/schedules", "+--- ++- +--"),
    ("post", "/api/schedules", "+--- ++- +--"),
    ("get", "/api/schedules/{schedule}", "+--- ++- +--"),
    ("patch", "/api/schedules/{schedule}", "+--- ++- +--"),
    ("delete", "/api/schedules/{schedule}", "+--- ++- +--"),
    ("get", "/api/status", "+--- ++- +--"),
    ("get", "/api/agents", "+--- ++- +--"),
    ("get", "/api/quotas", "+--- ++- +--"),
    ("get", "/api/usage", "+--- ++- +--"),
    ("get", "/api/usage/cold", "+--- ++- +--"),
    ("get", "/api/channels", "+--- ++- +--"),
    ("get", "/api/keys", "+--- ++- +--"),
    ("get", "/api/deliveries", "+--- ++- +--"),
    ("get", "/api/search", "+--- ++- +--"),
    ("get", "/api/bus/endpoints", "++++ +++ +--"),
    ("post", "/api/bus/messages", "++++ +++ +--"),
    ("get", "/api/bus/messages", "+--- ++- +--"),
    ("get", "/api/bus/dead", "+--- ++- +--"),
    ("post", "/api/bus/dead/{position}/resend", "+--- ++- +--"),
    ("delete", "/api/bus/dead/{position}", "+--- ++- +--"),
    ("get", "/api/bus/events", "+--- ++- +--"),
    ("post", "/v1/messages", "++++ +++ -+-"),
    ("post", "/v1/messages/count_tokens", "++++ +++ -+-"),
    ("post", "/v1/chat/completions", "++++ +++ -+-"),
    ("post", "/v1/responses", "++++ +++ -+-"),
    ("get", "/v1/responses/{id}", "+--- ++- -+-"),
    ("post", "/v1/responses/{id}/cancel", "+--- ++- -+-"),
    ("get", "/v1/models", "++++ +++ -+-"),
    ("get", "/v1/models/{id}", "++++ +++ -+-"),
];

/// The sessions of one agent and of somebody else, each with a finished turn.
struct Family {
    own: (String, String),
    delegated: (String, String),
    other: (String, String),
}

impl Family {
    async fn new(stage: &ApiHarness) -> Self {
        let own = turn_of(stage, None).await;
        let delegated = turn_of(stage, Some(&own.0)).await;
        Self { delegated, other: turn_of(stage, None).await, own }
    }
}

async fn turn_of(stage: &ApiHarness, delegated_by: Option<&str>) -> (String, String) {
    let session = stage.post("/api/sessions", json!({"profile": "homely"})).await;
    let session = session["id"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/{session}/turns");
    let body = json!({"input": "echo x", "delegated_by": delegated_by});
    let turn = stage.post(&path, body).await["id"].as_str().unwrap().to_owned();
    stage.wait_for_status(&turn, "completed").await;
    (session, turn)
}

fn agent(session: &str) -> LocalCaller {
    LocalCaller::Agent([agent_mark(session)].into())
}

fn tcp(caller: LocalCaller) -> ConnectionSource {
    ConnectionSource::Tcp(TcpPeer::identified(LOCAL_ADDRESS, caller))
}

/// Sends a request whose body is not valid, so that a handler that is reached changes nothing, and
/// returns whether a handler was reached.
async fn reaches(
    stage: &ApiHarness,
    (method, path): (&str, &str),
    (session, turn): &(String, String),
    source: ConnectionSource,
    token: Option<&str>,
) -> bool {
    let none = "00000000-0000-0000-0000-000000000000";
    let path = path
        .replace("{session}", session)
        .replace("{turn}", turn)
        .replace("{approval}", none)
        .replace("{schedule}", none)
        .replace("{browser}", none)
        .replace("{position}", "7")
        .replace("{path}", "app.css")
        .replace("{id}", "none");
    let mut request = Request::builder()
        .method(Method::from_bytes(method.to_uppercase().as_bytes()).unwrap())
        .uri(&path)
        .header("host", LOCAL_ADDRESS.to_string())
        .extension(source);
    if let Some(token) = token {
        request = request.header("x-api-key", token);
    }
    let body = if path == "/api/sessions" { r#"{"profile": "default"}"# } else { "not JSON" };
    // Only the head: the feed has no end.
    let answer = stage.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await;
    let answer = answer.unwrap();
    let is_refused = matches!(answer.status().as_u16(), 401 | 403);
    // The handler of webhooks refuses those that are not signed.
    if is_refused && path.starts_with("/hooks/") {
        return ApiResponse::read(answer).await.text.contains("no webhook of this name");
    }
    !is_refused
}

#[derive(Clone, Copy)]
enum About {
    Own,
    Delegated,
    Other,
}

/// A column of the table: the session of the request, and the caller. The socket and loopback lead
/// to the same check of an agent, so they share its columns; `sockets.rs` tests real processes.
async fn column(stage: &ApiHarness, route: (&str, &str), number: usize, browser: &str) -> bool {
    // Fresh sessions, because a request that is let through may delete one.
    let family = Family::new(stage).await;
    let agent = || tcp(agent(&family.own.0));
    let owner = || tcp(LocalCaller::Owner);
    let token = Some(TOKEN);
    let (about, source, token) = match number {
        0 => (About::Other, own_process_source(), None),
        1 => (About::Own, agent(), token),
        2 => (About::Delegated, agent(), token),
        3 | 6 => (About::Other, agent(), token),
        4 => (About::Other, owner(), token),
        5 => (About::Other, tcp(LocalCaller::Remote), token),
        7 => (About::Other, owner(), Some(browser)),
        8 => (About::Other, owner(), Some(KEY)),
        _ => (About::Other, owner(), None),
    };
    let about = match about {
        About::Own => &family.own,
        About::Delegated => &family.delegated,
        About::Other => &family.other,
    };
    reaches(stage, route, about, source, token).await
}

async fn row(stage: &ApiHarness, route: (&str, &str), browser: &str) -> String {
    let mut row = String::new();
    for number in 0..10 {
        if number == 4 || number == 7 {
            row.push(' ');
        }
        row.push(if column(stage, route, number, browser).await { '+' } else { '-' });
    }
    row
}

#[tokio::test]
async fn every_route_is_reached_by_those_who_may_and_no_others() {
    let stage = ApiHarness::new();
    let key = AccessKey {
        name: "k".into(),
        sha256: Sha256::digest(KEY).into(),
        grant: Grant {
            profiles: AllowedModels::All,
            providers: AllowedModels::All,
            agent_mode: true,
            max_cost_usd_per_day: None,
        },
    };
    let keys = vec![key].into();
    stage.state.models.replace(ModelSettings { keys, ..ModelSettings::default() });
    let browser = stage.sign_in().await;
    let document = stage.get("/openapi.json").await;
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            count += 1;
            let found = row(&stage, (method, path), &browser).await;
            let known = ROUTES.iter().find(|(m, p, _)| m == method && p == path);
            if known.map(|(_, _, row)| *row) != Some(&*found) {
                wrong.push(format!("(\"{method}\", \"{path}\", \"{found}\"), not {known:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(count, ROUTES.len());
}

async fn call(
    stage: &ApiHarness,
    caller: LocalCaller,
    method: Method,
    path: &str,
    body: Value,
) -> crate::harness::ApiResponse {
    let mut request = crate::harness::request(method, path, Some(body));
    request.extensions_mut().insert(tcp(caller));
    stage.send(request).await
}

#[tokio::test]
async fn an_agent_hands_work_only_where_its_session_may_and_within_its_limits() {
    let stage = ApiHarness::new();
    let family = Family::new(&stage).await;
    let own = || agent(&family.own.0);
    let wide = json!({"profile": "default"});
    let answer = call(&stage, own(), Method::POST, "/api/sessions", wide).await;
    assert_eq!(answer.error(), (403, "refused".to_owned(), "only to `homely`".to_owned()));
    let named = json!({"profile": "homely", "name": "owners"});
    let answer = call(&stage, own(), Method::POST, "/api/sessions", named).await;
    assert_eq!(answer.status, 400);

    let narrow = json!({"profile": "homely"});
    let created = call(&stage, own(), Method::POST, "/api/sessions", narrow).await.success_json();
    let session = created["id"].as_str().unwrap();
    let turns = format!("/api/sessions/{session}/turns");
    let body = json!({"input": "origin", "delegated_by": family.other.0, "max_cost_usd": 9});
    // The agents of other sessions do not reach the session that this one has created.
    let foreign = agent(&family.other.0);
    let answer = call(&stage, foreign, Method::POST, &turns, body.clone()).await;
    assert_eq!(answer.status, 403);
    let turn = call(&stage, own(), Method::POST, &turns, body).await.success_json();
    let turn = turn["id"].as_str().unwrap();
    // The limits of the delegating session hold whatever the request says.
    assert_eq!(stage.wait_for_status(turn, "completed").await["text"], "remote false");
    let record = stage.state.engine.turn(turn.parse().unwrap()).await.unwrap();
    let caller = format!("session:{}", family.own.0);
    assert_eq!(record.options.caller.as_deref(), Some(&*caller));
    assert_eq!(record.options.charged_to.as_deref(), Some("key:guest"));
    assert_eq!(record.options.max_cost_usd, Some(0.25));
    let events = format!("/api/turns/{turn}/events?hold=true");
    let held = call(&stage, own(), Method::GET, &events, Value::Null).await;
    assert!(held.status.is_success(), "{held:?}");
    // A client that holds a turn interrupts it by disconnecting, so an agent may only watch its own
    // turn.
    let events = format!("/api/turns/{}/events?hold=true", family.own.1);
    assert_eq!(call(&stage, own(), Method::GET, &events, Value::Null).await.status, 403);
    let listed = format!("/api/turns?session={}", family.own.0);
    let listed = call(&stage, own(), Method::GET, &listed, Value::Null).await.success_json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    let listed = format!("/api/turns?session={}", family.other.0);
    assert_eq!(call(&stage, own(), Method::GET, &listed, Value::Null).await.status, 403);
}

/// An agent must not read a file by asking to edit it.
#[tokio::test]
async fn the_diff_of_an_edit_is_for_the_owner_and_not_for_the_agent() {
    let stage = ApiHarness::new();
    let (session, _) = turn_of(&stage, None).await;
    let turn = stage.submit(&session, "ask").await;
    stage.wait_for_status(&turn, "awaiting_approval").await;
    let pending = stage.get("/api/approvals").await;
    let approval = &pending["data"][0];
    assert_eq!(approval["diff"], "--- a/notes.txt\n+++ b/notes.txt\n");
    assert_eq!(approval["session"]["id"], session);
    assert_eq!(approval["session"]["profile"], "homely");
    assert!(approval["session"]["cwd"].is_string() && approval["session"]["title"].is_null());
    let path = format!("/api/approvals/{}", approval["id"].as_str().unwrap());
    stage.post(&path, json!({"verdict": "deny"})).await;
    stage.wait_for_status(&turn, "completed").await;
    let events = format!("/api/turns/{turn}/events");
    for (caller, sees) in [(LocalCaller::Owner, true), (agent(&session), false)] {
        let answer = call(&stage, caller, Method::GET, &events, Value::Null).await;
        let text = answer.text;
        assert!(text.contains("approval.requested"), "{text}");
        assert_eq!(text.contains("+++ b/notes.txt"), sees, "{text}");
    }
}

#[tokio::test]
async fn several_marks_reach_only_what_each_of_them_reaches() {
    let stage = ApiHarness::new();
    let family = Family::new(&stage).await;
    let marks = |sessions: [&str; 2]| LocalCaller::Agent(sessions.map(agent_mark).into());
    let show = async |caller, session: &str| {
        let path = format!("/api/sessions/{session}");
        call(&stage, caller, Method::GET, &path, Value::Null).await.status.as_u16()
    };
    // An agent inside an agent's process.
    let nested = || marks([&family.delegated.0, &family.own.0]);
    assert_eq!(show(nested(), &family.delegated.0).await, 200);
    assert_eq!(show(nested(), &family.own.0).await, 403);
    // A forged variable in front of the real mark.
    let forged = || marks([&family.other.0, &family.own.0]);
    assert_eq!(show(forged(), &family.other.0).await, 403);
    assert_eq!(show(forged(), &family.own.0).await, 403);
    // Unknown marks and processes that hide reach nothing.
    for nobody in [LocalCaller::Unidentified, LocalCaller::Agent(["nonsense".to_owned()].into())] {
        assert_eq!(show(nobody, &family.own.0).await, 403);
    }
    // One that hides may be the owner's, so it is not told that it is an agent's.
    let hidden = call(&stage, LocalCaller::Unidentified, Method::GET, "/api/audit", Value::Null);
    let (status, _, message) = hidden.await.error();
    assert_eq!((status, message.as_str()), (403, "cannot tell which process is asking"));
}
