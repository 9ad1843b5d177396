//! `/openapi.json` and the router agree: every path with its methods, and nothing else.

use std::collections::BTreeSet;

use angelia_frontends::http::router;
use axum::{
    body::Body,
    http::{Method, Request},
};
use serde_json::Value;
use tower::ServiceExt;

use crate::harness::{ApiHarness, LOCAL_ADDRESS, TOKEN, owner_source};

/// Returns the router's paths from its debug output, the only place where it lists them.
fn routed(router: &axum::Router<()>) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    let (_, paths) = shown.split_once("paths: {").unwrap();
    let (paths, _) = paths.split_once('}').map_or((paths, ""), |_| {
        // Paths contain braces; the list ends at the first brace outside a string.
        let mut quoted = false;
        let end = paths.char_indices().find(|(_, letter)| {
            quoted ^= *letter == '"';
            *letter == '}' && !quoted
        });
        paths.split_at(end.unwrap().0)
    });
    let pieces = paths.split('"').skip(1).step_by(2);
    let public = pieces.filter(|path| !path.contains("__private__"));
    public.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_document_has_every_path_and_nothing_else() {
    let stage = ApiHarness::new();
    let document = stage.get("/openapi.json").await;
    let described: BTreeSet<String> =
        document["paths"].as_object().unwrap().keys().cloned().collect();
    let routed = routed(&router(stage.state.clone()));
    let routed: BTreeSet<String> = routed.iter().map(|path| path.replace("{*", "{")).collect();
    assert_eq!(described, routed);
}

#[tokio::test]
async fn the_document_has_every_method_and_nothing_else() {
    let stage = ApiHarness::new();
    let document = stage.get("/openapi.json").await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let mut filled = path.clone();
        for id in ["{session}", "{turn}", "{approval}", "{id}"] {
            filled = filled.replace(id, "none");
        }
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
            let described = |method: &str| operations.get(method.to_lowercase()).is_some();
            // A route that answers GET also answers HEAD.
            let expected = described(method) || (method == "HEAD" && described("GET"));
            let allowed = is_allowed(&stage, method, &filled).await;
            assert_eq!(allowed, expected, "{method} {path}");
        }
    }
}

async fn is_allowed(stage: &ApiHarness, method: &str, path: &str) -> bool {
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header("host", LOCAL_ADDRESS.to_string())
        .header("x-api-key", TOKEN)
        .extension(owner_source())
        .body(Body::empty())
        .unwrap();
    let response = stage.router.clone().oneshot(request).await.unwrap();
    response.status() != 405
}

#[tokio::test]
async fn both_ways_to_show_a_key_are_described() {
    let stage = ApiHarness::new();
    let document = stage.get("/openapi.json").await;
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(schemes["bearer"]["scheme"], "bearer");
    assert_eq!(schemes["key"]["name"], "x-api-key");
    let open = &document["paths"]["/healthz"]["get"]["security"];
    assert_eq!(*open, Value::Array(Vec::new()));
}
