//! `/api`, and the paths next to it.

use serde_json::json;

use super::{
    super::{
        ConfigReload, ConfigResource, ErrorBody, HealthStatus,
        api::{
            AuditParams, AuditResource, BusAccepted, BusEndpoint, BusMessageBody, ColdParams,
            ColdStartResource, CompactionResult, DecisionBody, DecisionReceipt, EventsQuery,
            InterruptBody, NewScheduleBody, NewSessionBody, PageQuery, RestartBody,
            ScheduleChangeBody, SearchParams, SessionChangeBody, TurnBody, UsageParams,
        },
        resources::{
            AcceptedTurnResource, AgentResource, ApprovalResource, ExecutorResource,
            ProfileResource, QuotaResource, ResourceList, ScheduleResource, SearchResource,
            SessionResource, StatusResource, SteerResource, TurnResource, UsageResource,
        },
    },
    paths::{Operation, Paths, SuccessBody},
};

pub(super) fn add(paths: &mut Paths) {
    machine(paths);
    sessions(paths);
    turns(paths);
    events(paths);
    approvals(paths);
    audit(paths);
    config(paths);
    schedules(paths);
    reports(paths);
    bus(paths);
    hooks(paths);
}

/// Adds an operation with the error schema of `/api`.
fn add_operation(paths: &mut Paths, operation: Operation) {
    let error = paths.response_schema::<ErrorBody>();
    paths.add(operation.error(error));
}

fn machine(paths: &mut Paths) {
    let hello = SuccessBody::Json(paths.response_schema::<HealthStatus>());
    let alive = Operation::get("/healthz", "Reports that the daemon is alive, and its version.");
    add_operation(paths, alive.answers(200, hello).open());
    let status = json!({"type": "object", "properties": {"status": {"const": "ready"}}, "required": ["status"]});
    let ready = Operation::get("/readyz", "Reports whether the daemon can do its work.");
    add_operation(paths, ready.answers(200, SuccessBody::Json(status)).fails(&[503]));
    let metrics = Operation::get("/metrics", "Metrics for Prometheus.");
    add_operation(paths, metrics.answers(200, SuccessBody::Text));
    let this = Operation::get("/openapi.json", "This document.");
    add_operation(paths, this.answers(200, SuccessBody::Json(json!({"type": "object"}))));
    let about = "Probe that Claude Code sends first, to open its connection early.";
    for (path, is_open) in [("/", true), ("/api/hello", false)] {
        let probe = Operation::new("head", path, about).answers(204, SuccessBody::Nothing);
        add_operation(paths, if is_open { probe.open() } else { probe });
    }
    let now = paths.request_schema::<RestartBody>();
    let about = "Restarts the daemon, and reports what it waits for; going away takes it back.";
    let restart = Operation::post("/api/restart", about).body(now);
    add_operation(paths, restart.answers(200, SuccessBody::Events).fails(&[409, 503]));
    let profiles = SuccessBody::Json(paths.response_schema::<ResourceList<ProfileResource>>());
    let all = Operation::get("/api/profiles", "Lists the profiles.");
    add_operation(paths, all.answers(200, profiles));
    let executors = SuccessBody::Json(paths.response_schema::<ResourceList<ExecutorResource>>());
    let all = Operation::get("/api/executors", "Lists the executors and their state.");
    add_operation(paths, all.answers(200, executors));
}

fn sessions(paths: &mut Paths) {
    let (all, one) = ("/api/sessions", "/api/sessions/{session}");
    let session = paths.response_schema::<SessionResource>();
    let session_body = || SuccessBody::Json(session.clone());
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<SessionResource>>());
    let page = paths.inline::<PageQuery>();
    let listed = Operation::get(all, "Lists sessions, newest first.");
    let filters = [
        "limit", "cursor", "name", "q", "status", "profile", "executor", "origin", "since", "cwd",
        "sort",
    ];
    add_operation(paths, listed.query(&page, &filters).answers(200, list));
    let new = paths.request_schema::<NewSessionBody>();
    let create = Operation::post(all, "Creates a session.").optional_body(new);
    add_operation(paths, create.answers(201, session_body()).fails(&[404, 409, 424, 503]));
    let show = Operation::get(one, "Returns a session.");
    add_operation(paths, show.answers(200, session_body()));
    let changes = paths.request_schema::<SessionChangeBody>();
    let change = Operation::new("patch", one, "Changes the title or the model of a session.")
        .optional_body(changes);
    add_operation(paths, change.answers(200, session_body()).fails(&[409]));
    let delete = Operation::new("delete", one, "Deletes a session with its record.");
    add_operation(paths, delete.answers(204, SuccessBody::Nothing).fails(&[409]));
    let fork = Operation::post("/api/sessions/{session}/fork", "Forks a session.");
    add_operation(paths, fork.answers(201, session_body()).fails(&[409, 503]));
    let result = SuccessBody::Json(paths.response_schema::<CompactionResult>());
    let about = "Shortens the conversation of a session now; refused while a turn runs.";
    let compact = Operation::post("/api/sessions/{session}/compact", about);
    add_operation(paths, compact.answers(200, result).fails(&[409, 424, 503]));
}

fn turns(paths: &mut Paths) {
    let body = paths.request_schema::<TurnBody>();
    let accepted = SuccessBody::Json(paths.response_schema::<AcceptedTurnResource>());
    let submit = Operation::post(
        "/api/sessions/{session}/turns",
        "Submits a turn; its events report the rest.",
    );
    let submit = submit
        .header("idempotency-key", "A repeat with the same key is the same turn.")
        .body(body.clone())
        .answers(202, accepted);
    add_operation(paths, submit.fails(&[409, 424, 429, 503]));
    let page = paths.inline::<PageQuery>();
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<TurnResource>>());
    let listed = Operation::get("/api/turns", "Lists turns, newest first.");
    let listed =
        listed.query(&page, &["limit", "cursor", "session", "status", "since"]).fails(&[404]);
    add_operation(paths, listed.answers(200, list));
    let turn = paths.response_schema::<TurnResource>();
    let show = Operation::get("/api/turns/{turn}", "Returns a turn.");
    add_operation(paths, show.answers(200, SuccessBody::Json(turn.clone())));
    let kill = paths.request_schema::<InterruptBody>();
    let interrupt =
        Operation::post("/api/turns/{turn}/interrupt", "Interrupts a turn.").optional_body(kill);
    let interrupt = interrupt.answers(202, SuccessBody::Json(turn));
    add_operation(paths, interrupt.fails(&[409]));
    let steered = SuccessBody::Json(paths.response_schema::<SteerResource>());
    let steer = Operation::post("/api/turns/{turn}/steer", "Steers a running turn.").body(body);
    add_operation(paths, steer.answers(202, steered).fails(&[409, 424, 429, 503]));
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
        .answers(200, SuccessBody::Events)
        .answers(204, SuccessBody::Nothing);
    add_operation(paths, events);
}

fn approvals(paths: &mut Paths) {
    let page = paths.inline::<PageQuery>();
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<ApprovalResource>>());
    let listed = Operation::get("/api/approvals", "Lists pending approvals.");
    let listed = listed.query(&page, &["limit", "cursor", "all"]);
    add_operation(paths, listed.answers(200, list));
    let verdict = paths.request_schema::<DecisionBody>();
    let decided = SuccessBody::Json(paths.response_schema::<DecisionReceipt>());
    let decide = Operation::post("/api/approvals/{approval}", "Decides an approval.").body(verdict);
    add_operation(paths, decide.answers(200, decided).fails(&[409]));
}

fn audit(paths: &mut Paths) {
    let params = paths.inline::<AuditParams>();
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<AuditResource>>());
    let about = "Lists who has decided, changed, deleted or exposed something; newest first.";
    let listed = Operation::get("/api/audit", about).query(&params, &["limit", "cursor", "since"]);
    add_operation(paths, listed.answers(200, list));
}

fn config(paths: &mut Paths) {
    let config = SuccessBody::Json(paths.response_schema::<ConfigResource>());
    let about = "Shows the configuration in force, and what of the file waits.";
    add_operation(paths, Operation::get("/api/config", about).answers(200, config));
    let reloaded = SuccessBody::Json(paths.response_schema::<ConfigReload>());
    let about = "Puts the configuration file into force, except for what needs a restart.";
    let reload = Operation::post("/api/config/reload", about);
    add_operation(paths, reload.answers(200, reloaded).fails(&[400]));
}

fn schedules(paths: &mut Paths) {
    let (all, one) = ("/api/schedules", "/api/schedules/{schedule}");
    let schedule = paths.response_schema::<ScheduleResource>();
    let schedule_body = || SuccessBody::Json(schedule.clone());
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<ScheduleResource>>());
    let page = paths.inline::<PageQuery>();
    let listed = Operation::get(all, "Lists the schedules, oldest first.");
    add_operation(paths, listed.query(&page, &["prefix"]).answers(200, list));
    let new = paths.request_schema::<NewScheduleBody>();
    let create = Operation::post(all, "Adds a schedule.").body(new);
    add_operation(paths, create.answers(201, schedule_body()));
    let show = Operation::get(one, "Returns a schedule with its last results.");
    add_operation(paths, show.answers(200, schedule_body()));
    let paused = paths.request_schema::<ScheduleChangeBody>();
    let change = Operation::new("patch", one, "Pauses or resumes a schedule.").body(paused);
    add_operation(paths, change.answers(200, schedule_body()));
    let delete = Operation::new("delete", one, "Removes a schedule.");
    add_operation(paths, delete.answers(204, SuccessBody::Nothing));
}

fn reports(paths: &mut Paths) {
    let status = SuccessBody::Json(paths.response_schema::<StatusResource>());
    let all = Operation::get("/api/status", "Returns everything that is going on.");
    add_operation(paths, all.answers(200, status));
    let agents = SuccessBody::Json(paths.response_schema::<ResourceList<AgentResource>>());
    let listed = Operation::get("/api/agents", "Lists the agents and the memory they use.");
    add_operation(paths, listed.answers(200, agents));
    let quotas = SuccessBody::Json(paths.response_schema::<ResourceList<QuotaResource>>());
    let listed = Operation::get("/api/quotas", "Lists what is left of the vendors' quotas.");
    add_operation(paths, listed.answers(200, quotas));
    let params = paths.inline::<UsageParams>();
    let rows = SuccessBody::Json(paths.response_schema::<ResourceList<UsageResource>>());
    let used = Operation::get("/api/usage", "Adds up what turns used.");
    let used = used.query(&params, &["from", "to", "bucket", "by"]);
    add_operation(paths, used.answers(200, rows));
    let params = paths.inline::<ColdParams>();
    let cold = SuccessBody::Json(paths.response_schema::<ResourceList<ColdStartResource>>());
    let about = "Lists turns that found nothing in the model's cache, and why; newest first.";
    let listed = Operation::get("/api/usage/cold", about).query(&params, &["from", "to", "limit"]);
    add_operation(paths, listed.answers(200, cold));
    let params = paths.inline::<SearchParams>();
    let found = SuccessBody::Json(paths.response_schema::<ResourceList<SearchResource>>());
    let search = Operation::get("/api/search", "Searches what was said in all sessions.");
    add_operation(paths, search.query(&params, &["q", "limit"]).answers(200, found));
}

fn bus(paths: &mut Paths) {
    let endpoints = SuccessBody::Json(paths.response_schema::<ResourceList<BusEndpoint>>());
    let listed = Operation::get("/api/bus/endpoints", "Lists endpoints and their queued messages.");
    add_operation(paths, listed.answers(200, endpoints).fails(&[503]));
    let message = paths.request_schema::<BusMessageBody>();
    let accepted = SuccessBody::Json(paths.response_schema::<BusAccepted>());
    let send =
        Operation::post("/api/bus/messages", "Sends a message, which is kept until delivered.");
    let send = send.body(message).answers(202, accepted);
    add_operation(paths, send.fails(&[429, 503]));
    let about = "Streams messages as they come in.";
    let events = Operation::get("/api/bus/events", about);
    add_operation(paths, events.answers(200, SuccessBody::Events).fails(&[503]));
}

fn hooks(paths: &mut Paths) {
    let id = json!({"type": "string"});
    let begun = json!({"type": "object", "properties": {"turn_id": id, "session_id": id},
        "required": ["turn_id", "session_id"]});
    let known = json!({"type": "object",
        "properties": {"repeated": {"const": true}, "challenge": {"type": "string"}}});
    let about =
        "Begins a turn for a signed request of another system, once; the signature is the login.";
    let hook = Operation::post("/hooks/{name}", about).body(json!({})).open();
    let hook = hook.answers(202, SuccessBody::Json(begun)).answers(200, SuccessBody::Json(known));
    add_operation(paths, hook.fails(&[401, 409, 429, 503]));
}
