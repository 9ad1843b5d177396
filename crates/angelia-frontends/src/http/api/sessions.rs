//! `/api/sessions`.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::{CompactionReport, EngineError, NewSession},
    model::{
        AuditAction, ExternalName, IdPrefix, SessionId, SessionSource, SessionSummary, TurnOptions,
        TurnOrigin,
    },
    ports::{ProfileRequest, RecordKind, SessionQuery},
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    super::{
        ApiState, ConnectionSource, HttpError, OWNER_NAME_SCOPE,
        body::{JsonBody, QueryParams},
        openapi::shapes,
        reach::AgentCaller,
        resources::{ResourceList, SessionResource},
        state::SharedState,
    },
    PathId,
    paging::PageQuery,
};

pub(super) async fn list(
    State(state): SharedState,
    QueryParams(query): QueryParams<PageQuery>,
) -> Result<Json<ResourceList<SessionResource>>, HttpError> {
    if let Some(name) = &query.name {
        return list_by_name(&state, name).await;
    }
    let found = match query.prefix()? {
        Some(prefix) => find_by_prefix(&state, prefix, query.page()?.limit).await?,
        None => state.engine.list_sessions(query.sessions()?).await?,
    };
    let id = |session: &SessionSummary| session.record.id.to_string();
    let mut list = query.list(&found, id, |record| SessionResource::from(record));
    let ids = list.data.iter().map(|session| session.id.as_uuid()).collect();
    let short_ids = state.engine.short_ids(RecordKind::Session, ids).await?;
    for (session, short_id) in list.data.iter_mut().zip(short_ids) {
        session.short_id = Some(short_id);
    }
    Ok(Json(list))
}

async fn find_by_prefix(
    state: &ApiState,
    prefix: IdPrefix,
    limit: usize,
) -> Result<Vec<SessionSummary>, HttpError> {
    let mut found = Vec::new();
    for id in state.engine.find_ids(RecordKind::Session, prefix, limit).await? {
        let id = SessionQuery::One(SessionId::from_uuid(id));
        found.extend(state.engine.list_sessions(id).await?);
    }
    Ok(found)
}

async fn list_by_name(
    state: &ApiState,
    name: &str,
) -> Result<Json<ResourceList<SessionResource>>, HttpError> {
    let mut found = Vec::new();
    if let Some(id) = state.engine.find_by_name(&owners_name(name)).await? {
        for session in state.engine.list_sessions(SessionQuery::One(id)).await? {
            found.push(described(state, &session).await?);
        }
    }
    Ok(Json(ResourceList::whole(found)))
}

pub(crate) fn owners_name(name: &str) -> ExternalName {
    ExternalName { scope: OWNER_NAME_SCOPE.into(), name: name.into() }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSessionBody {
    pub profile: Option<Arc<str>>,
    /// An absolute path.
    #[schemars(extend("pattern" = "^/"))]
    pub cwd: Option<PathBuf>,
    /// The caller's directory, for profiles that set no directory of their own.
    #[schemars(extend("pattern" = "^/"))]
    pub caller_cwd: Option<PathBuf>,
    pub model: Option<Arc<str>>,
    pub title: Option<Arc<str>>,
    /// The owner's name for the session. A session that has this name already is returned instead.
    pub name: Option<String>,
    /// What begins the session; `http` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["terminal", "bridge", "agent", "http"]))]
    pub source: Option<String>,
}

impl NewSessionBody {
    /// Returns what creates the session.
    pub(crate) fn session_source(&self) -> Result<SessionSource, HttpError> {
        let Some(source) = &self.source else {
            return Ok(SessionSource::Http);
        };
        match source.parse() {
            Ok(
                known @ (SessionSource::Terminal
                | SessionSource::Bridge
                | SessionSource::Agent
                | SessionSource::Http),
            ) => Ok(known),
            _ => Err(HttpError::invalid(
                "source: this must be `terminal`, `bridge`, `agent` or `http`",
            )),
        }
    }

    /// Splits the body into the request to the profiles, and the session's title and name.
    pub(crate) fn into_parts(
        self,
        at_terminal: bool,
    ) -> (ProfileRequest, Option<Arc<str>>, Option<ExternalName>) {
        let wanted = ProfileRequest {
            profile: self.profile,
            cwd: self.cwd,
            caller_cwd: self.caller_cwd,
            model: self.model,
            at_terminal,
            ..ProfileRequest::default()
        };
        (wanted, self.title, self.name.as_deref().map(owners_name))
    }
}

pub(super) async fn create(
    State(state): SharedState,
    Extension(source): Extension<ConnectionSource>,
    agent: Option<Extension<AgentCaller>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<NewSessionBody>,
) -> Result<(StatusCode, Json<SessionResource>), HttpError> {
    for (field, path) in [("cwd", &body.cwd), ("caller_cwd", &body.caller_cwd)] {
        if path.as_ref().is_some_and(|path| !path.is_absolute()) {
            let message = format!("{field}: this must be an absolute path");
            return Err(HttpError::invalid(message));
        }
    }
    let begun_by = Some(body.session_source()?);
    let (wanted, title, name) = body.into_parts(source.is_terminal(&headers).await);
    let session = match agent {
        None => {
            let spec = state.profiles.resolve(wanted).await?;
            let new = NewSession { spec, title, name, source: begun_by };
            state.engine.create_session(new).await?
        }
        Some(Extension(agent)) => {
            if name.is_some() {
                return Err(HttpError::invalid("name: names belong to the owner")
                    .with_hint("leave it out, and use the id of the session"));
            }
            let spec = agent.check_new_session(&state, wanted).await?;
            let source = Some(SessionSource::Agent);
            let new = NewSession { spec, title, name, source };
            let session = state.engine.create_session(new).await?;
            agent.add_created(session.id)?;
            session
        }
    };
    Ok((StatusCode::CREATED, Json(read(&state, session.id).await?)))
}

pub(super) async fn show(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
) -> Result<Json<SessionResource>, HttpError> {
    Ok(Json(read(&state, id).await?))
}

/// Returns a session as clients see it.
async fn read(state: &ApiState, id: SessionId) -> Result<SessionResource, HttpError> {
    let found = state.engine.list_sessions(SessionQuery::One(id)).await?;
    let found = found.first().ok_or(EngineError::NotFound("session"))?;
    described(state, found).await
}

/// Returns a session with its short id, and the settings that are older than its profile's.
pub(super) async fn described(
    state: &ApiState,
    session: &SessionSummary,
) -> Result<SessionResource, HttpError> {
    let short = state.engine.short_id(RecordKind::Session, session.record.id.as_uuid()).await?;
    let older = state.profiles.older_settings(&session.record).await;
    Ok(SessionResource {
        short_id: Some(short),
        older_settings: older.into_iter().map(str::to_owned).collect(),
        ..session.into()
    })
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChangeBody", extend("minProperties" = 1))]
pub struct SessionChangeBody {
    /// `null` removes the title.
    #[serde(default, deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::text_or_null")]
    pub title: Option<Option<Arc<str>>>,
    /// The model of the next turn and those after it, as the agent's own CLI calls it. The agent is
    /// restarted on the same conversation.
    #[serde(default, deserialize_with = "never_null", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::words")]
    pub model: Option<Arc<str>>,
}

/// Distinguishes a `null` field from a missing one.
#[expect(clippy::option_option, reason = "missing, null and a text are three things")]
fn even_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<Arc<str>>>, D::Error> {
    Option::deserialize(value).map(Some)
}

fn never_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Arc<str>>, D::Error> {
    Arc::<str>::deserialize(value).map(Some)
}

pub(super) async fn change(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
    JsonBody(body): JsonBody<SessionChangeBody>,
) -> Result<Json<SessionResource>, HttpError> {
    if body.title.is_none() && body.model.is_none() {
        return Err(HttpError::invalid("missing field `title` or `model`"));
    }
    if let Some(model) = body.model {
        if model.trim().is_empty() {
            return Err(HttpError::invalid("model: there must be some text"));
        }
        state.engine.change_session(id, |spec| spec.model = Some(model)).await?;
    }
    if let Some(title) = body.title {
        state.engine.rename_session(id, title).await?;
    }
    Ok(Json(read(&state, id).await?))
}

pub(super) async fn fork(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
) -> Result<(StatusCode, Json<SessionResource>), HttpError> {
    let session = state.engine.fork_session(id).await?;
    Ok((StatusCode::CREATED, Json(read(&state, session.id).await?)))
}

/// What became of a conversation that was to be shortened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionResult {
    pub compacted: bool,
    /// What was done, or why nothing was.
    pub reason: Arc<str>,
}

impl From<CompactionReport> for CompactionResult {
    fn from(CompactionReport { compacted, reason }: CompactionReport) -> Self {
        Self { compacted, reason }
    }
}

pub(super) async fn compact(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
) -> Result<Json<CompactionResult>, HttpError> {
    let options = TurnOptions::new(TurnOrigin::Remote);
    Ok(Json(state.engine.compact(id, options).await?.into()))
}

pub(super) async fn delete(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
    Extension(caller): Extension<ConnectionSource>,
) -> Result<StatusCode, HttpError> {
    state.engine.delete_session(id).await?;
    let actor = caller.audit_actor().await;
    state.engine.record_audit(actor, AuditAction::Deletion, format!("session {id}")).await;
    Ok(StatusCode::NO_CONTENT)
}
