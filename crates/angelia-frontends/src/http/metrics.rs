//! `GET /metrics`: counters and gauges for Prometheus. Labels contain no ids, no prompts and no
//! user-chosen names.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use angelia_core::engine::{ExecutorTotals, Gauges, LATENCY_BOUNDS};
use axum::{
    extract::{Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{ApiState, state::SharedState};

/// The paths by which requests are counted. A path below one of them counts as that one.
const COUNTED_PATHS: [&str; 14] = [
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
    "/readyz",
    "/metrics",
    "/openapi.json",
];

/// Counts the requests of this process since it started.
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

    fn write(&self, text: &mut Exposition) {
        text.family("angelia_http_requests_total", "counter", "Requests by path and status.");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((path, status), count) in &*requests {
            let labels = format!("path=\"{path}\",status=\"{status}\"");
            text.labelled("angelia_http_requests_total", &labels, count);
        }
        let open = self.open.load(Ordering::Relaxed);
        let about = "Requests whose answer has not begun.";
        text.gauge("angelia_http_requests_open", about, open);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Text in the Prometheus exposition format.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _infallible = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn labelled(&mut self, name: &str, labels: &str, value: impl Display) {
        let _infallible = writeln!(self.0, "{name}{{{labels}}} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        let _infallible = writeln!(self.0, "{name} {value}");
    }

    /// Writes one gauge per value of a label.
    fn gauges(&mut self, name: &str, help: &str, label: &str, values: &[(&str, usize)]) {
        self.family(name, "gauge", help);
        for (word, value) in values {
            self.labelled(name, &format!("{label}=\"{word}\""), value);
        }
    }
}

fn write_engine_metrics(text: &mut Exposition, gauges: &Gauges) {
    let name = "angelia_turns_finished_total";
    text.family(name, "counter", "Turns that have ended, by their status.");
    for (status, count) in &gauges.finished {
        text.labelled(name, &format!("status=\"{status}\""), count);
    }
    let (turns, agents) = (gauges.turns, gauges.agents);
    let states = [
        ("queued", turns.queued),
        ("running", turns.running - turns.awaiting_tool_result),
        ("awaiting_tool_result", turns.awaiting_tool_result),
    ];
    text.gauges("angelia_turns", "Turns that have not ended.", "state", &states);
    let states = [("busy", agents.live.saturating_sub(agents.idle)), ("idle", agents.idle)];
    text.gauges("angelia_agents", "Agents of sessions that are alive.", "state", &states);
    text.gauge(
        "angelia_agents_wanted",
        "Turns that wait until an agent may be started.",
        agents.waiting_turns,
    );
    text.gauge("angelia_sessions_live", "Sessions that are in memory.", gauges.sessions);
    text.gauge("angelia_approvals_pending", "Approvals awaiting a decision.", gauges.approvals);
}

/// Writes the usage and latency of finished turns.
fn write_executor_metrics(text: &mut Exposition, executors: &[(Arc<str>, ExecutorTotals)]) {
    let name = "angelia_tokens_total";
    text.family(name, "counter", "Tokens of finished turns, by executor and kind.");
    for (executor, totals) in executors {
        let usage = &totals.usage;
        for (kind, count) in [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ] {
            text.labelled(name, &format!("executor=\"{executor}\",kind=\"{kind}\""), count);
        }
    }
    let name = "angelia_cost_usd_total";
    text.family(name, "counter", "Cost of finished turns in US dollars, as far as it is known.");
    for (executor, totals) in executors {
        let cost = totals.usage.cost_usd.unwrap_or_default();
        text.labelled(name, &format!("executor=\"{executor}\""), cost);
    }
    let name = "angelia_first_word_seconds";
    text.family(
        name,
        "histogram",
        "From the submission of a turn to the first text of its answer.",
    );
    for (executor, totals) in executors {
        let histogram = &totals.first_word;
        let label = format!("executor=\"{executor}\"");
        let bucket = format!("{name}_bucket");
        for (bound, count) in LATENCY_BOUNDS.iter().zip(histogram.up_to) {
            text.labelled(&bucket, &format!("{label},le=\"{bound}\""), count);
        }
        text.labelled(&bucket, &format!("{label},le=\"+Inf\""), histogram.count);
        text.labelled(&format!("{name}_sum"), &label, histogram.sum_seconds);
        text.labelled(&format!("{name}_count"), &label, histogram.count);
    }
}

fn write_bus_metrics(text: &mut Exposition, state: &ApiState) {
    let Some(door) = &state.bus else { return };
    let endpoints = door.bus.endpoints();
    let listening = endpoints.iter().filter(|one| one.session.is_some()).count();
    let queued: usize = endpoints.iter().map(|one| one.queued).sum();
    text.gauge("angelia_bus_endpoints_listening", "Endpoints with a listener.", listening);
    text.gauge("angelia_bus_messages_queued", "Messages that wait for their receivers.", queued);
}

/// Counts a request as open until it is answered or dropped.
struct OpenRequestGuard<'a>(&'a AtomicI64);

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn count_request(
    State(state): SharedState,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let below = |known: &&&str| {
        path.strip_prefix(**known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let path = COUNTED_PATHS.iter().find(below).copied().unwrap_or("other");
    state.metrics.open.fetch_add(1, Ordering::Relaxed);
    let open = OpenRequestGuard(&state.metrics.open);
    let response = next.run(request).await;
    drop(open);
    state.metrics.count(path, response.status().as_u16());
    response
}

pub(super) async fn get_metrics(State(state): SharedState) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let mut text = Exposition::default();
    text.family("angelia_build_info", "gauge", "The running version.");
    let version = format!("version=\"{}\"", state.version);
    text.labelled("angelia_build_info", &version, 1);
    state.metrics.write(&mut text);
    let gauges = state.engine.gauges();
    write_engine_metrics(&mut text, &gauges);
    write_executor_metrics(&mut text, &gauges.executors);
    // The `http` tasks are connections, and work that outlives its request.
    let tasks = [("engine", gauges.tasks), ("http", state.tasks.count())];
    text.gauges("angelia_tasks", "Running tasks.", "group", &tasks);
    write_bus_metrics(&mut text, &state);
    ([(header::CONTENT_TYPE, kind)], text.0).into_response()
}
