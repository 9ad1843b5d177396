//! The dashboard as far as no browser is needed: its files, the login, who may use a browser's token, and
//! the change feed.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::harness::{ApiHarness, ApiResponse, DEADLINE, own_process_source, request};

/// Sends a request without a token over TCP.
async fn anonymous(stage: &ApiHarness, method: Method, path: &str, accept: &str) -> ApiResponse {
    let mut request = request(method, path, None);
    request.headers_mut().remove("authorization");
    request.headers_mut().insert("accept", accept.parse().unwrap());
    stage.send(request).await
}

/// Sends a request of a browser's page with these headers besides its token.
async fn with_token(
    stage: &ApiHarness,
    token: &str,
    path: &str,
    headers: &[(&'static str, &str)],
) -> ApiResponse {
    let mut request = request(Method::GET, path, None);
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    stage.send(request).await
}

async fn sign_in_with(stage: &ApiHarness, code: &str) -> ApiResponse {
    let mut request = request(Method::POST, "/api/login", Some(json!({"code": code})));
    request.headers_mut().remove("authorization");
    request
        .headers_mut()
        .insert("user-agent", "Mozilla/5.0 (X11; Linux) Firefox/150.0".parse().unwrap());
    stage.send(request).await
}

#[tokio::test]
async fn the_files_are_public_and_nothing_else_is() {
    let stage = ApiHarness::new();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/ui/src/main.js", "text/javascript; charset=utf-8"),
        ("/ui/base.css", "text/css; charset=utf-8"),
        ("/ui/icon.svg", "image/svg+xml"),
        // A person who has typed an address.
        ("/somewhere", "text/html; charset=utf-8"),
    ] {
        let answer = anonymous(&stage, Method::GET, path, "text/html,*/*").await;
        assert_eq!(answer.status, 200, "{path}");
        let header = |name: &str| answer.headers[name].to_str().unwrap();
        assert_eq!(header("content-type"), content_type, "{path}");
        let policy = header("content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("cross-origin-opener-policy"), "same-origin");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(header("cache-control"), "no-cache");
        assert!(!answer.headers.contains_key("set-cookie"));
        let mut again = request(Method::GET, path, None);
        again.headers_mut().insert("if-none-match", answer.headers["etag"].clone());
        again.headers_mut().insert("accept", "text/html".parse().unwrap());
        let again = stage.send(again).await;
        assert_eq!((again.status, again.text.as_str()), (StatusCode::NOT_MODIFIED, ""), "{path}");
    }
    for path in ["/api/status", "/api/events", "/v1/models", "/metrics", "/openapi.json"] {
        let answer = anonymous(&stage, Method::GET, path, "text/html").await;
        assert_eq!(answer.status, 401, "{path}");
    }
    assert_eq!(anonymous(&stage, Method::GET, "/ui/nothing.js", "*/*").await.status, 404);
    assert_eq!(anonymous(&stage, Method::GET, "/ui/..%2fsrc%2flib.rs", "*/*").await.status, 404);
    // A program that asks for nothing in particular gets an error, not a page.
    assert_eq!(anonymous(&stage, Method::GET, "/somewhere", "*/*").await.status, 401);
}

#[tokio::test]
async fn what_the_api_answers_is_kept_in_no_cache() {
    let stage = ApiHarness::new();
    let answer = stage.call(Method::GET, "/api/profiles", None).await;
    assert_eq!(answer.headers["cache-control"], "no-store");
}

#[tokio::test]
async fn a_code_works_once_and_not_for_long() {
    let stage = ApiHarness::new();
    let code = stage.login_code().await;
    assert_eq!(code.len(), 32, "{code}");
    let login = sign_in_with(&stage, &code).await.success_json();
    let token = login["token"].as_str().unwrap().to_owned();
    assert_eq!(token.len(), 64);
    assert!(login["expires_at"].is_string());
    assert_eq!(sign_in_with(&stage, &code).await.status, 401);
    assert_eq!(with_token(&stage, &token, "/api/status", &[]).await.status, 200);
    // Not the same as a code.
    assert_eq!(with_token(&stage, &code, "/api/status", &[]).await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_code_expires() {
    let stage = ApiHarness::new();
    let code = stage.login_code().await;
    tokio::time::advance(Duration::from_secs(121)).await;
    assert_eq!(sign_in_with(&stage, &code).await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn codes_cannot_be_guessed() {
    let stage = ApiHarness::new();
    let code = stage.login_code().await;
    for _ in 0..5 {
        assert_eq!(sign_in_with(&stage, "00000000000000000000000000000000").await.status, 401);
    }
    let refused = sign_in_with(&stage, &code).await;
    assert_eq!(refused.status, 429);
    assert!(refused.headers.contains_key("retry-after"));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(sign_in_with(&stage, &code).await.status, 201);
}

#[tokio::test]
async fn a_code_is_made_only_over_the_socket() {
    let stage = ApiHarness::new();
    let answer = stage.call(Method::POST, "/api/login/codes", None).await;
    assert_eq!(answer.status, 403);
    let token = stage.sign_in().await;
    let mut request = request(Method::POST, "/api/login/codes", None);
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    assert_eq!(stage.send(request).await.status, 403);
}

#[tokio::test]
async fn a_browsers_token_is_for_our_own_page_and_for_nothing_but_the_api() {
    let stage = ApiHarness::new();
    let token = stage.sign_in().await;
    let ours = "http://127.0.0.1:4376";
    let other_port = "http://127.0.0.1:43802";
    for (path, headers, status) in [
        ("/api/status", &[][..], 200),
        ("/api/status", &[("origin", ours), ("sec-fetch-site", "same-origin")][..], 200),
        ("/api/status", &[("sec-fetch-site", "none")][..], 200),
        // A page of another port is the same site, and still another page.
        ("/api/status", &[("sec-fetch-site", "same-site")][..], 403),
        ("/api/status", &[("sec-fetch-site", "cross-site")][..], 403),
        ("/api/status", &[("origin", other_port)][..], 403),
        // An origin that the owner has listed may use a key, not a browser's token.
        ("/api/status", &[("origin", "https://app.example")][..], 403),
        ("/v1/models", &[][..], 403),
        ("/metrics", &[][..], 403),
    ] {
        let answer = with_token(&stage, &token, path, headers).await;
        assert_eq!(answer.status.as_u16(), status, "{path} {headers:?}");
    }
    for path in ["/api/config/reload", "/api/restart"] {
        let mut request = request(Method::POST, path, Some(json!({})));
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        assert_eq!(stage.send(request).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_listed_and_revoked() {
    let stage = ApiHarness::new();
    let code = stage.login_code().await;
    let login = sign_in_with(&stage, &code).await.success_json();
    let token = login["token"].as_str().unwrap().to_owned();
    let listed = with_token(&stage, &token, "/api/login/browsers", &[]).await.success_json();
    let browser = &listed["data"][0];
    assert_eq!(browser["name"], "Firefox on Linux");
    assert_eq!(browser["current"], true);
    assert!(!listed.to_string().contains(&token), "the token is not shown");
    let id = browser["id"].as_str().unwrap();
    let path = format!("/api/login/browsers/{id}");
    assert_eq!(stage.call(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(with_token(&stage, &token, "/api/status", &[]).await.status, 401);
    assert_eq!(stage.call(Method::DELETE, &path, None).await.status, 404);
    let audit = stage.get("/api/audit").await;
    let words: Vec<&str> =
        audit["data"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(words, ["Firefox on Linux signed out", "Firefox on Linux signed in"]);
}

#[tokio::test]
async fn a_browser_that_is_signed_out_hears_nothing_more() {
    let stage = ApiHarness::new();
    let token = stage.sign_in().await;
    let mut request = request(Method::GET, "/api/events", None);
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let answer = stage.router.clone().oneshot(request).await.unwrap();
    let mut body = answer.into_body();
    assert!(body.frame().await.unwrap().unwrap().is_data());
    let browsers = stage.get("/api/login/browsers").await;
    let path = format!("/api/login/browsers/{}", browsers["data"][0]["id"].as_str().unwrap());
    assert_eq!(stage.call(Method::DELETE, &path, None).await.status, 204);
    let ended = async { while body.frame().await.is_some() {} };
    tokio::time::timeout(DEADLINE, ended).await.unwrap();
}

#[tokio::test]
async fn a_decision_in_a_browser_names_the_browser() {
    let stage = ApiHarness::new();
    let code = stage.login_code().await;
    let login = sign_in_with(&stage, &code).await.success_json();
    let token = login["token"].as_str().unwrap().to_owned();
    let session = stage.session().await;
    let turn = stage.submit(&session, "ask").await;
    stage.wait_for_status(&turn, "awaiting_approval").await;
    let approval = stage.get("/api/approvals").await["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/approvals/{approval}");
    let mut request = request(Method::POST, &path, Some(json!({"verdict": "once"})));
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    assert_eq!(stage.send(request).await.status, 200);
    let decided = stage.get("/api/approvals?all=1").await;
    assert_eq!(decided["data"][0]["decided"]["by"], "owner (browser Firefox on Linux)");
}

/// Follows the feed.
struct Feed {
    body: Body,
    text: String,
    /// Events that no test has asked for yet: different things have no order among each other.
    unused: Vec<FeedEvent>,
}

struct FeedEvent {
    name: String,
    id: String,
    data: Value,
}

impl Feed {
    async fn open(stage: &ApiHarness, last: Option<&str>) -> Self {
        let mut request = Request::builder().uri("/api/events").extension(own_process_source());
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = stage.router.clone().oneshot(request.body(Body::empty()).unwrap()).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { body: answer.into_body(), text: String::new(), unused: Vec::new() }
    }

    /// Waits for an event that the test looks for, and returns its id and its data.
    async fn find(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> (String, Value) {
        let found = async {
            loop {
                let is_wanted = |event: &FeedEvent| event.name == name && wanted(&event.data);
                if let Some(index) = self.unused.iter().position(is_wanted) {
                    let event = self.unused.remove(index);
                    return (event.id, event.data);
                }
                self.read().await;
            }
        };
        tokio::time::timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("no {name}"))
    }

    async fn read(&mut self) {
        let frame = self.body.frame().await.unwrap().unwrap();
        self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        while let Some(end) = self.text.find("\n\n") {
            let event: String = self.text.drain(..end + 2).collect();
            let field = |field: &str| {
                let line = event.lines().find_map(|line| line.strip_prefix(field));
                line.unwrap_or_default().trim().to_owned()
            };
            let data = serde_json::from_str(&field("data:")).unwrap_or(Value::Null);
            self.unused.push(FeedEvent { name: field("event:"), id: field("id:"), data });
        }
    }
}

#[tokio::test]
async fn the_feed_has_the_new_resources_and_is_resumed() {
    let stage = ApiHarness::new();
    let mut feed = Feed::open(&stage, None).await;
    let (first, _) = feed.find("reset", |_| true).await;
    let session = stage.session().await;
    let (_, changed) = feed.find("session.changed", |data| data["id"] == session).await;
    assert_eq!((&changed["profile"], &changed["turns"]), (&json!("default"), &json!(0)));
    let turn = stage.submit(&session, "ask").await;
    let (_, asked) = feed.find("approval.requested", |_| true).await;
    assert_eq!(asked["turn_id"], turn);
    assert_eq!(asked["session"]["id"], session);
    let waits = |data: &Value| data["id"] == turn && data["status"] == "awaiting_approval";
    let (_, waiting) = feed.find("turn.changed", waits).await;
    assert_eq!(waiting["clock"]["setting"], "approval_timeout", "{waiting}");
    let path = format!("/api/approvals/{}", asked["id"].as_str().unwrap());
    stage.post(&path, json!({"verdict": "once"})).await;
    let (_, resolved) = feed.find("approval.resolved", |_| true).await;
    assert_eq!(resolved["decided"]["verdict"], "once");
    let ended = |data: &Value| data["id"] == turn && data["status"] == "completed";
    feed.find("turn.changed", ended).await;
    feed.find("session.changed", |data| data["status"] == "completed").await;
    // From the start again: everything since then, in order.
    let mut resumed = Feed::open(&stage, Some(&first)).await;
    resumed.find("session.changed", |data| data["id"] == session).await;
    resumed.find("approval.requested", |_| true).await;
    let (last, _) = resumed.find("approval.resolved", |_| true).await;
    assert!(last.contains('-'), "{last}");
    // An id of another process is worth nothing.
    let mut other = Feed::open(&stage, Some("deadbeef-3")).await;
    other.find("reset", |_| true).await;
    let path = format!("/api/sessions/{session}");
    assert_eq!(stage.call(Method::DELETE, &path, None).await.status, 204);
    feed.find("session.changed", |data| data["deleted"] == true).await;
}

/// A client reads the lists when it is told to; what changes after that must come by the feed.
#[tokio::test]
async fn a_change_right_behind_the_reset_is_reported() {
    let stage = ApiHarness::new();
    let mut feed = Feed::open(&stage, None).await;
    feed.find("reset", |_| true).await;
    assert_eq!(stage.get("/api/schedules").await["data"], json!([]));
    let schedule = json!({"spec": "every 1h", "prompt": "x"});
    let made = stage.post("/api/schedules", schedule).await;
    feed.find("schedule.changed", |data| data["id"] == made["id"]).await;
}

#[tokio::test]
async fn sessions_are_filtered_with_their_newest_turn() {
    let stage = ApiHarness::new();
    let named = |title: &str, profile: &str| json!({"title": title, "profile": profile});
    for (title, profile) in
        [("fix 100% of it", "default"), ("write notes", "homely"), ("idle", "homely")]
    {
        let session = stage.post("/api/sessions", named(title, profile)).await;
        if title != "idle" {
            let turn = stage.submit(session["id"].as_str().unwrap(), "echo x").await;
            stage.wait_for_status(&turn, "completed").await;
        }
    }
    let titles = async |query: &str| {
        let list = stage.get(&format!("/api/sessions?{query}")).await;
        let data = list["data"].as_array().unwrap().clone();
        data.iter().map(|one| one["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles("sort=updated").await, ["idle", "write notes", "fix 100% of it"]);
    assert_eq!(titles("q=NOTES").await, ["write notes"]);
    assert_eq!(titles("q=100%25").await, ["fix 100% of it"]);
    assert_eq!(titles("q=it%20fix").await, ["fix 100% of it"]);
    assert!(titles("q=1_0").await.is_empty());
    assert_eq!(titles("profile=homely&status=completed").await, ["write notes"]);
    assert_eq!(titles("executor=puppet&origin=http&limit=1").await, ["idle"]);
    assert!(titles("origin=key").await.is_empty());
    assert!(titles("since=2100-01-01T00:00:00Z").await.is_empty());
    let list = stage.get("/api/sessions?q=notes").await;
    let found = &list["data"][0];
    assert_eq!(found["turns"], 1);
    assert_eq!(found["newest_turn"]["status"], "completed");
    assert!(found["newest_turn"]["id"].is_string() && found["newest_turn"]["at"].is_string());
    let wrong = stage.call(Method::GET, "/api/sessions?sort=size", None).await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn keys_and_settings_are_shown_without_secrets() {
    let stage = ApiHarness::new();
    assert_eq!(stage.get("/api/keys").await["data"], json!([]));
    assert_eq!(stage.get("/api/channels").await["data"], json!([]));
    assert_eq!(stage.get("/api/deliveries").await["data"], json!([]));
    assert_eq!(stage.get("/api/usage/cold").await["data"], json!([]));
    assert_eq!(stage.get("/api/config").await["origins"]["listen"], "default");
    // Without a bus there is nothing to list, and the error says so.
    let answer = stage.call(Method::GET, "/api/bus/dead", None).await;
    assert_eq!(answer.status, 503);
}
