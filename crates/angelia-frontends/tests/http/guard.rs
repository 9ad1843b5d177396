//! Access control: the token, `Host`, `Origin`, and the peer of the Unix socket.

use angelia_frontends::{http::ConnectionSource, socket::Peer};
use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use serde_json::json;

use crate::harness::{ApiHarness, ApiResponse, TOKEN, own_process_source, owner_source, request};

async fn with_headers(stage: &ApiHarness, path: &str, headers: &[(&str, &str)]) -> ApiResponse {
    let mut request = Request::builder().uri(path).extension(owner_source());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    stage.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn everything_but_healthz_needs_the_token() {
    let stage = ApiHarness::new();
    let host = ("host", "127.0.0.1:4376");
    let bearer = format!("Bearer {TOKEN}");
    let lower = format!("bearer  {TOKEN}");
    for good in [
        ("authorization", bearer.as_str()),
        ("authorization", lower.as_str()),
        ("x-api-key", TOKEN),
    ] {
        let answer = with_headers(&stage, "/api/sessions", &[host, good]).await;
        assert_eq!(answer.status, StatusCode::OK, "{good:?}");
    }
    let prefix = format!("Bearer {}", &TOKEN[..TOKEN.len() - 1]);
    let longer = format!("Bearer {TOKEN}x");
    for bad in [
        ("x-nothing", ""),
        ("authorization", "Bearer"),
        ("authorization", "Bearer "),
        ("authorization", prefix.as_str()),
        ("authorization", longer.as_str()),
        ("authorization", TOKEN),
        ("authorization", "Basic dG9rLTEyMw=="),
        ("x-api-key", ""),
        ("x-api-key", "wrong"),
        ("cookie", "token=tok-123"),
    ] {
        for path in ["/api/sessions", "/api/profiles", "/nowhere", "/healthz/", "/api"] {
            let answer = with_headers(&stage, path, &[host, bad]).await;
            let (status, kind, _) = answer.error();
            assert_eq!((status, kind.as_str()), (401, "auth"), "{bad:?} {path}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
    let health = with_headers(&stage, "/healthz", &[host]).await;
    assert_eq!(health.success_json(), json!({"status": "ok", "version": "1.2.3"}));
    let mut post = request(Method::POST, "/healthz", None);
    post.headers_mut().remove("authorization");
    assert_eq!(stage.send(post).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_misdirected() {
    let stage = ApiHarness::new();
    let token = ("x-api-key", TOKEN);
    for good in [
        "127.0.0.1:4376",
        "localhost:4376",
        "LocalHost:4376",
        "127.8.8.8:4376",
        "[::1]:4376",
        "box.example",
        "box.example:8080",
        "BOX.example",
        "dev.example:99",
    ] {
        let answer = with_headers(&stage, "/api/sessions", &[("host", good), token]).await;
        assert_eq!(answer.status, StatusCode::OK, "{good}");
    }
    for bad in [
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost:4377",
        "evil.example",
        "evil.example:4376",
        "localhost.evil.example:4376",
        "127.0.0.1.evil.example:4376",
        "localhost:4376@evil.example",
        "evil@localhost:4376",
        "10.0.0.1:4376",
        "0.0.0.0:4376",
        "dev.example",
        "dev.example:98",
        "xbox.example",
        "",
        ":4376",
        "[::1:4376",
        "local host:4376",
    ] {
        for path in ["/api/sessions", "/healthz"] {
            let answer = with_headers(&stage, path, &[("host", bad), token]).await;
            assert_eq!(answer.error().0, 421, "{bad} {path}");
        }
    }
    let none = with_headers(&stage, "/healthz", &[token]).await;
    assert_eq!(none.error().0, 421);
    let two = [("host", "localhost:4376"), ("host", "evil.example")];
    assert_eq!(with_headers(&stage, "/healthz", &two).await.error().0, 421);
    let target = with_headers(&stage, "http://evil.example/healthz", &[("host", "localhost:4376")]);
    assert_eq!(target.await.error().0, 421);
}

#[tokio::test]
async fn a_foreign_page_is_refused_even_with_the_token() {
    let stage = ApiHarness::new();
    let ours = [("host", "localhost:4376"), ("x-api-key", TOKEN)];
    for good in [
        "http://localhost:4376",
        "http://127.0.0.1:4376",
        "http://[::1]:4376",
        "https://app.example",
        "HTTPS://app.example",
        "https://box.example",
        "http://box.example:8080",
    ] {
        let headers = [ours[0], ours[1], ("origin", good)];
        let answer = with_headers(&stage, "/api/sessions", &headers).await;
        assert_eq!(answer.status, StatusCode::OK, "{good}");
    }
    for bad in [
        "null",
        "",
        "http://localhost",
        "http://localhost:3000",
        "https://evil.example",
        "http://app.example",
        "https://app.example.evil.example",
        "http://localhost:4376.evil.example",
        "http://evil@localhost:4376",
        "file://localhost:4376",
        "localhost:4376",
    ] {
        for path in ["/api/sessions", "/healthz"] {
            let answer = with_headers(&stage, path, &[ours[0], ours[1], ("origin", bad)]).await;
            let (status, kind, _) = answer.error();
            assert_eq!((status, kind.as_str()), (403, "refused"), "{bad} {path}");
        }
    }
    let two = [ours[0], ours[1], ("origin", "https://app.example"), ("origin", "null")];
    assert_eq!(with_headers(&stage, "/healthz", &two).await.error().0, 403);
}

fn over_socket(caller: ConnectionSource, method: Method, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).extension(caller).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn the_socket_needs_no_token_but_the_right_user() {
    let stage = ApiHarness::new();
    let own = over_socket(own_process_source(), Method::GET, "/healthz");
    let hello = stage.send(own).await.success_json();
    assert_eq!(hello["version"], "1.2.3");
    assert_eq!(hello["config_sha256"], "c0ffee");
    assert_eq!(hello["pid"], std::process::id());

    let uid = rustix::process::geteuid().as_raw();
    let stranger = ConnectionSource::Unix(Peer::new(uid + 1, Some(std::process::id())));
    for path in ["/healthz", "/api/sessions"] {
        let answer = stage.send(over_socket(stranger.clone(), Method::GET, path)).await;
        assert_eq!(answer.error().0, 403);
    }
    let mut page = over_socket(own_process_source(), Method::GET, "/api/sessions");
    let origin = "http://localhost:4376".parse().unwrap();
    page.headers_mut().insert("origin", origin);
    assert_eq!(stage.send(page).await.error().0, 403);
}

#[tokio::test]
async fn a_request_without_a_caller_is_served_to_nobody() {
    let stage = ApiHarness::new();
    let mut nobody = request(Method::GET, "/api/sessions", None);
    nobody.extensions_mut().clear();
    assert_eq!(stage.send(nobody).await.error().0, 500);
}
