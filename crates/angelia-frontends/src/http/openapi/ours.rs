//! `/api`, and the paths beside it.

use serde_json::json;

use super::{
    super::{
        ErrorBody, Hello,
        api::{
            BusAccepted, BusEndpoint, BusMessageBody, ChangeBody, Decided, DecisionBody,
            EventsQuery, InterruptBody, NewSessionBody, PageQuery, TurnBody,
        },
        resources::{Accepted, Approval, Executor, List, Profile, Session, Steered, Turn},
    },
    paths::{Answer, Operation, Paths},
};

pub(super) fn add(paths: &mut Paths) {
    machine(paths);
    sessions(paths);
    turns(paths);
    events(paths);
    approvals(paths);
    bus(paths);
}

/// Adds an operation with the error schema of `/api`.
fn put(paths: &mut Paths, operation: Operation) {
    let error = paths.written::<ErrorBody>();
    paths.add(operation.error(error));
}

fn machine(paths: &mut Paths) {
    let hello = Answer::Json(paths.written::<Hello>());
    let alive = Operation::get("/healthz", "Reports that the daemon is alive, and its version.");
    put(paths, alive.answers(200, hello).open());
    let status = json!({"type": "object", "properties": {"status": {"const": "ready"}}, "required": ["status"]});
    let ready = Operation::get("/readyz", "Reports whether the daemon can do its work.");
    put(paths, ready.answers(200, Answer::Json(status)).fails(&[503]));
    let metrics = Operation::get("/metrics", "Metrics for Prometheus.");
    put(paths, metrics.answers(200, Answer::Text));
    let this = Operation::get("/openapi.json", "This document.");
    put(paths, this.answers(200, Answer::Json(json!({"type": "object"}))));
    for path in ["/", "/api/hello"] {
        let about = "Probe that Claude Code sends first, to open its connection early.";
        let probe = Operation::new("head", path, about);
        put(paths, probe.answers(204, Answer::Nothing));
    }
    let profiles = Answer::Json(paths.written::<List<Profile>>());
    let all = Operation::get("/api/profiles", "Lists the profiles.");
    put(paths, all.answers(200, profiles));
    let executors = Answer::Json(paths.written::<List<Executor>>());
    let all = Operation::get("/api/executors", "Lists the executors and their state.");
    put(paths, all.answers(200, executors));
}

fn sessions(paths: &mut Paths) {
    let (all, one) = ("/api/sessions", "/api/sessions/{session}");
    let session = paths.written::<Session>();
    let shown = || Answer::Json(session.clone());
    let list = Answer::Json(paths.written::<List<Session>>());
    let page = paths.inline::<PageQuery>();
    let listed = Operation::get(all, "Lists sessions, newest first.");
    put(paths, listed.query(&page, &["limit", "cursor", "name"]).answers(200, list));
    let new = paths.read::<NewSessionBody>();
    let create = Operation::post(all, "Creates a session.").optional_body(new);
    put(paths, create.answers(201, shown()).fails(&[404, 409, 424, 503]));
    let show = Operation::get(one, "Returns a session.");
    put(paths, show.answers(200, shown()));
    let title = paths.read::<ChangeBody>();
    let change =
        Operation::new("patch", one, "Changes the title of a session.").optional_body(title);
    put(paths, change.answers(200, shown()).fails(&[409]));
    let delete = Operation::new("delete", one, "Deletes a session with its record.");
    put(paths, delete.answers(204, Answer::Nothing).fails(&[409]));
    let fork = Operation::post("/api/sessions/{session}/fork", "Forks a session.");
    put(paths, fork.answers(201, shown()).fails(&[409, 503]));
}

fn turns(paths: &mut Paths) {
    let said = paths.read::<TurnBody>();
    let accepted = Answer::Json(paths.written::<Accepted>());
    let submit = Operation::post(
        "/api/sessions/{session}/turns",
        "Submits a turn; its events report the rest.",
    );
    let submit = submit
        .header("idempotency-key", "A repeat with the same key is the same turn.")
        .body(said.clone())
        .answers(202, accepted);
    put(paths, submit.fails(&[409, 424, 429, 503]));
    let page = paths.inline::<PageQuery>();
    let list = Answer::Json(paths.written::<List<Turn>>());
    let listed = Operation::get("/api/turns", "Lists turns, newest first.");
    let listed = listed.query(&page, &["limit", "cursor", "session"]).fails(&[404]);
    put(paths, listed.answers(200, list));
    let turn = paths.written::<Turn>();
    let show = Operation::get("/api/turns/{turn}", "Returns a turn.");
    put(paths, show.answers(200, Answer::Json(turn.clone())));
    let kill = paths.read::<InterruptBody>();
    let interrupt =
        Operation::post("/api/turns/{turn}/interrupt", "Interrupts a turn.").optional_body(kill);
    let interrupt = interrupt.answers(202, Answer::Json(turn));
    put(paths, interrupt.fails(&[409]));
    let steered = Answer::Json(paths.written::<Steered>());
    let steer = Operation::post("/api/turns/{turn}/steer", "Steers a running turn.").body(said);
    put(paths, steer.answers(202, steered).fails(&[409, 424, 429, 503]));
}

fn events(paths: &mut Paths) {
    let query = paths.inline::<EventsQuery>();
    let events = Operation::get(
        "/api/turns/{turn}/events",
        "Streams the events of a turn; 204 if it has ended and all were seen.",
    );
    let events = events
        .query(&query, &["after", "hold"])
        .header_like(
            "last-event-id",
            "The number of the last event the client has seen.",
            "^[0-9]{0,18}$",
        )
        .answers(200, Answer::Events)
        .answers(204, Answer::Nothing);
    put(paths, events);
}

fn approvals(paths: &mut Paths) {
    let page = paths.inline::<PageQuery>();
    let list = Answer::Json(paths.written::<List<Approval>>());
    let listed = Operation::get("/api/approvals", "Lists pending approvals.");
    let listed = listed.query(&page, &["limit", "cursor", "all"]);
    put(paths, listed.answers(200, list));
    let verdict = paths.read::<DecisionBody>();
    let decided = Answer::Json(paths.written::<Decided>());
    let decide = Operation::post("/api/approvals/{approval}", "Decides an approval.").body(verdict);
    put(paths, decide.answers(200, decided).fails(&[409]));
}

fn bus(paths: &mut Paths) {
    let endpoints = Answer::Json(paths.written::<List<BusEndpoint>>());
    let listed = Operation::get("/api/bus/endpoints", "Lists endpoints and their queued messages.");
    put(paths, listed.answers(200, endpoints).fails(&[503]));
    let message = paths.read::<BusMessageBody>();
    let accepted = Answer::Json(paths.written::<BusAccepted>());
    let send =
        Operation::post("/api/bus/messages", "Sends a message, which is kept until delivered.");
    let send = send.body(message).answers(202, accepted);
    put(paths, send.fails(&[429, 503]));
    let about = "Streams messages as they come in.";
    let events = Operation::get("/api/bus/events", about);
    put(paths, events.answers(200, Answer::Events).fails(&[503]));
}
