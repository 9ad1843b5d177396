//! `/api/schedules`: turns that start on their own.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::{Engine, EngineError},
    model::{
        AuditAction, EndpointName, MissedPolicy, OverlapPolicy, ScheduleId, ScheduleRecord,
        ScheduleSummary, Trigger,
    },
    ports::{MAX_OCCURRENCES, RecordKind},
};
use axum::{Extension, Json, extract::State, http::StatusCode};
use jiff::{Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    super::{
        ApiState, ConnectionSource, HttpError,
        body::{JsonBody, QueryParams},
        resources::{OccurrenceResource, ResourceList, ScheduleResource},
        state::SharedState,
    },
    PathId,
    paging::PageQuery,
};
use crate::schedules::check_result_target;

/// How many results of a schedule are shown.
const MAX_RESULTS: usize = 20;

/// A schedule to add.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewScheduleBody {
    /// Five fields of cron, `at TIME`, `every PERIOD` or `watch PATH`.
    pub spec: String,
    /// The time zone of `spec`, such as `Europe/Berlin`; that of the daemon by default.
    #[serde(default)]
    pub tz: Option<String>,
    #[schemars(extend("pattern" = "\\S"))]
    pub prompt: Arc<str>,
    #[serde(default)]
    pub profile: Option<Arc<str>>,
    /// The session to continue, by its name or id. A name begins one the first time.
    #[serde(default)]
    pub session: Option<Arc<str>>,
    /// The directory that the agent works in; wins over the profile's.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The directory for a profile that has none.
    #[serde(default)]
    pub caller_cwd: Option<PathBuf>,
    /// The channel or the endpoint that gets the result.
    #[serde(default)]
    pub to: Option<Arc<str>>,
    /// What happens to times at which no daemon ran: `skip` or `run_once`, the default.
    #[serde(default)]
    #[schemars(extend("enum" = ["skip", "run_once", null]))]
    pub missed: Option<String>,
    /// What happens while an earlier turn runs: `skip`, the default, or `queue`.
    #[serde(default)]
    #[schemars(extend("enum" = ["skip", "queue", null]))]
    pub overlap: Option<String>,
}

impl NewScheduleBody {
    /// Returns the requested schedule. The error tells what is wrong.
    pub fn into_record(self, id: Uuid, now: Timestamp) -> Result<ScheduleRecord, String> {
        if self.prompt.trim().is_empty() {
            return Err("prompt: there must be some text".to_owned());
        }
        let zone = find_zone(self.tz.as_deref()).map_err(|error| format!("tz: {error}"))?;
        let trigger = Trigger::parse(&self.spec, &zone).map_err(|error| error.to_string())?;
        // Only the name of a zone is stored.
        if trigger.zone().is_some_and(|zone| zone.iana_name().is_none()) {
            return Err("tz: name a zone: this machine's has no name".to_owned());
        }
        if let Trigger::At(at) = trigger
            && at <= now
        {
            return Err(format!("{at} has passed"));
        }
        if let Some(to) = &self.to {
            // Only the daemon knows which channels exist.
            EndpointName::check(to).map_err(|error| format!("to: {error}"))?;
        }
        let mut record = ScheduleRecord {
            id: ScheduleId::from_uuid(id),
            trigger,
            prompt: self.prompt,
            profile: self.profile,
            session: self.session,
            cwd: self.cwd,
            caller_cwd: self.caller_cwd,
            to: self.to,
            missed: choose(self.missed.as_deref(), &MissedPolicy::ALL, MissedPolicy::as_str)
                .map_err(|words| format!("missed: use one of {words}"))?,
            overlap: choose(self.overlap.as_deref(), &OverlapPolicy::ALL, OverlapPolicy::as_str)
                .map_err(|words| format!("overlap: use one of {words}"))?,
            paused: false,
            created_at: now,
            active_since: now,
            next_at: None,
        };
        record.next_at = record.next_after(now);
        Ok(record)
    }
}

/// Returns the zone with this name or, without one, that of this machine.
pub fn find_zone(name: Option<&str>) -> Result<TimeZone, String> {
    match name.map(TimeZone::get) {
        Some(named) => named.map_err(|error| error.to_string()),
        None => {
            Ok(Some(TimeZone::system()).filter(|zone| !zone.is_unknown()).unwrap_or(TimeZone::UTC))
        }
    }
}

/// Returns the choice with this spelling, or the default. The error lists the choices.
fn choose<T: Copy + Default>(
    word: Option<&str>,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let Some(word) = word else { return Ok(T::default()) };
    let found = all.iter().copied().find(|one| as_str(*one) == word);
    found.ok_or_else(|| all.iter().map(|one| as_str(*one)).collect::<Vec<_>>().join(", "))
}

/// A change of a schedule.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChangeBody {
    pub paused: bool,
}

pub(super) async fn list(
    State(state): SharedState,
    QueryParams(query): QueryParams<PageQuery>,
) -> Result<Json<ResourceList<ScheduleResource>>, HttpError> {
    let engine = &state.engine;
    let found = match query.prefix()? {
        Some(prefix) => {
            let mut found = Vec::new();
            for id in engine.find_ids(RecordKind::Schedule, prefix, query.page()?.limit).await? {
                found.push(engine.schedule(ScheduleId::from_uuid(id)).await?);
            }
            found
        }
        None => engine.schedules().await?,
    };
    Ok(Json(ResourceList::whole(describe_all(engine, &found).await?)))
}

pub(super) async fn create(
    State(state): SharedState,
    Extension(source): Extension<ConnectionSource>,
    JsonBody(body): JsonBody<NewScheduleBody>,
) -> Result<(StatusCode, Json<ScheduleResource>), HttpError> {
    if let Some(profile) = &body.profile {
        let mut known = state.profiles.list().into_iter();
        if !known.any(|one| one.name == *profile) {
            return Err(HttpError::invalid(format!("profile: there is no profile `{profile}`")));
        }
    }
    if let (Some(to), Some(queue)) = (&body.to, &state.delivery_queue) {
        check_result_target(to, queue, state.bus.is_some()).map_err(|error| {
            HttpError::invalid(format!("to: {error}")).with_hint(list_endpoints(&state))
        })?;
    }
    let engine = &state.engine;
    let record = body.into_record(engine.fresh_id(), engine.now()).map_err(HttpError::invalid)?;
    engine.add_schedule(&record).await?;
    let subject = schedule_audit_subject("added", &record);
    engine.record_audit(source.audit_actor().await, AuditAction::Schedule, subject).await;
    let shown = describe(engine, &ScheduleSummary { record, last: None }).await?;
    Ok((StatusCode::CREATED, Json(shown)))
}

/// How many bus endpoints the error about an unknown target lists.
const MAX_NAMED_ENDPOINTS: usize = 10;

/// Describes where a result can go besides channels.
fn list_endpoints(state: &ApiState) -> String {
    let Some(api) = &state.bus else {
        return "a channel is `platform:chat`; there are no endpoints without a bus".to_owned();
    };
    let endpoints = api.bus.endpoints();
    let names: Vec<&str> = endpoints.iter().map(|one| one.name.as_str()).collect();
    let (shown, rest) = names.split_at(names.len().min(MAX_NAMED_ENDPOINTS));
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let known = match shown {
        [] => "the bus knows none yet".to_owned(),
        shown => format!("the bus knows {}{more}", shown.join(", ")),
    };
    format!("a channel is `platform:chat`, an endpoint a name without `:`; {known}")
}

/// Describes a change to a schedule, for the audit.
pub fn schedule_audit_subject(what: &str, schedule: &ScheduleRecord) -> String {
    format!("{what} {} ({})", schedule.id, schedule.trigger)
}

pub(super) async fn show(
    State(state): SharedState,
    PathId(id): PathId<ScheduleId>,
) -> Result<Json<ScheduleResource>, HttpError> {
    let engine = &state.engine;
    let mut shown = describe(engine, &engine.schedule(id).await?).await?;
    for occurrence in &engine.occurrences(id, MAX_RESULTS.min(MAX_OCCURRENCES)).await? {
        let mut result = occurrence.into();
        set_live_status(engine, &mut result).await?;
        shown.results.push(result);
    }
    Ok(Json(shown))
}

pub(super) async fn change(
    State(state): SharedState,
    PathId(id): PathId<ScheduleId>,
    Extension(source): Extension<ConnectionSource>,
    JsonBody(body): JsonBody<ScheduleChangeBody>,
) -> Result<Json<ScheduleResource>, HttpError> {
    let engine = &state.engine;
    let was_paused = engine.schedule(id).await?.record.paused;
    let changed = engine.set_schedule_paused(id, body.paused).await?;
    if was_paused != body.paused {
        let what = if body.paused { "paused" } else { "resumed" };
        let subject = schedule_audit_subject(what, &changed.record);
        engine.record_audit(source.audit_actor().await, AuditAction::Schedule, subject).await;
    }
    Ok(Json(describe(engine, &changed).await?))
}

pub(super) async fn delete(
    State(state): SharedState,
    PathId(id): PathId<ScheduleId>,
    Extension(source): Extension<ConnectionSource>,
) -> Result<StatusCode, HttpError> {
    let engine = &state.engine;
    let record = engine.schedule(id).await?.record;
    engine.remove_schedule(id).await?;
    let subject = schedule_audit_subject("removed", &record);
    engine.record_audit(source.audit_actor().await, AuditAction::Schedule, subject).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Describes schedules, including their short ids.
pub(super) async fn describe_all(
    engine: &Engine,
    found: &[ScheduleSummary],
) -> Result<Vec<ScheduleResource>, EngineError> {
    let mut shown = Vec::new();
    for summary in found {
        shown.push(describe(engine, summary).await?);
    }
    Ok(shown)
}

async fn describe(
    engine: &Engine,
    summary: &ScheduleSummary,
) -> Result<ScheduleResource, EngineError> {
    let mut shown = ScheduleResource::from(summary);
    let id = summary.record.id.as_uuid();
    shown.short_id = Some(engine.short_id(RecordKind::Schedule, id).await?);
    if let Some(last) = &mut shown.last {
        set_live_status(engine, last).await?;
    }
    Ok(shown)
}

/// Replaces the status with that of the turn, if the turn has not ended.
async fn set_live_status(
    engine: &Engine,
    result: &mut OccurrenceResource,
) -> Result<(), EngineError> {
    if let (Some(turn), None) = (result.turn_id, result.ended_at) {
        match engine.turn(turn).await {
            Ok(turn) => turn.state.as_str().clone_into(&mut result.status),
            Err(EngineError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
