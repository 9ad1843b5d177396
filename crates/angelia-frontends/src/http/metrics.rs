//! `GET /metrics`: counts for Prometheus. No ids, no prompts: only how much and how it ended.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use axum::{
    extract::{Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::ApiState;

/// Paths by which requests are counted; what is below one of them counts as it.
const PATHS: [&str; 12] = [
    "/v1/messages/count_tokens",
    "/v1/messages",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/models",
    "/api/sessions",
    "/api/turns",
    "/api/approvals",
    "/api/bus",
    "/api",
    "/healthz",
    "/metrics",
];

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    open: AtomicI64,
}

impl Metrics {
    fn count(&self, path: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((path, status)).or_default() += 1;
    }

    fn text(&self, version: &str) -> String {
        let mut text = String::new();
        let family = |name: &str, kind: &str, help: &str| {
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
        };
        text += &family("angelia_build_info", "gauge", "Which version runs.");
        let _infallible = writeln!(text, "angelia_build_info{{version=\"{version}\"}} 1");
        text += &family(
            "angelia_http_requests_total",
            "counter",
            "Requests by path and status.",
        );
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((path, status), count) in &*requests {
            let _infallible = writeln!(
                text,
                "angelia_http_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}"
            );
        }
        text += &family(
            "angelia_http_requests_open",
            "gauge",
            "Requests whose answer has not begun.",
        );
        let open = self.open.load(Ordering::Relaxed);
        let _infallible = writeln!(text, "angelia_http_requests_open {open}");
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Open until it is answered, or given up.
struct Open<'a>(&'a AtomicI64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn count(
    State(state): State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let below = |known: &&&str| {
        path.strip_prefix(**known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let path = PATHS.iter().find(below).copied().unwrap_or("other");
    state.metrics.open.fetch_add(1, Ordering::Relaxed);
    let open = Open(&state.metrics.open);
    let response = next.run(request).await;
    drop(open);
    state.metrics.count(path, response.status().as_u16());
    response
}

pub(super) async fn show(State(state): State<Arc<ApiState>>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let text = state.metrics.text(&state.version);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
