//! `/api/sessions`.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::{EngineError, NewSession},
    model::{AuditAction, ExternalName, SessionId, SessionRecord},
    ports::ProfileRequest,
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
    let sessions = state.engine.sessions(query.page()?).await?;
    let id = |session: &SessionRecord| session.id.to_string();
    Ok(Json(query.list(&sessions, id, |record| record.into())))
}

async fn list_by_name(
    state: &ApiState,
    name: &str,
) -> Result<Json<ResourceList<SessionResource>>, HttpError> {
    let mut found = Vec::new();
    if let Some(id) = state.engine.find_by_name(&owners_name(name)).await? {
        match state.engine.session(id).await {
            Ok(session) => found.push((&session).into()),
            Err(EngineError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
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
    /// The owner's name for the session. A session that had this name before loses it.
    pub name: Option<String>,
}

impl NewSessionBody {
    /// Splits the body into the request to the profiles, and the title and name of the session.
    pub(crate) fn into_parts(
        self,
        at_terminal: bool,
    ) -> (ProfileRequest, Option<Arc<str>>, Option<ExternalName>) {
        let wanted = ProfileRequest {
            profile: self.profile,
            target: None,
            cwd: self.cwd,
            caller_cwd: self.caller_cwd,
            model: self.model,
            at_terminal,
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
    let (wanted, title, name) = body.into_parts(source.is_terminal(&headers).await);
    let session = match agent {
        None => {
            let spec = state.profiles.resolve(wanted).await?;
            state.engine.create_session(NewSession { spec, title, name }).await?
        }
        Some(Extension(agent)) => {
            if name.is_some() {
                return Err(HttpError::invalid("name: names belong to the owner")
                    .with_hint("leave it out, and use the id of the session"));
            }
            let spec = agent.check_new_session(&state, wanted).await?;
            let session = state.engine.create_session(NewSession { spec, title, name }).await?;
            agent.add_created(session.id)?;
            session
        }
    };
    Ok((StatusCode::CREATED, Json((&session).into())))
}

pub(super) async fn show(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
) -> Result<Json<SessionResource>, HttpError> {
    Ok(Json((&state.engine.session(id).await?).into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChangeBody")]
pub(in crate::http) struct SessionChangeBody {
    /// `null` removes the title; the field itself is required.
    #[serde(deserialize_with = "required")]
    #[schemars(schema_with = "shapes::text_or_null")]
    title: Option<Arc<str>>,
}

fn required<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Arc<str>>, D::Error> {
    Option::deserialize(value)
}

pub(super) async fn change(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
    JsonBody(body): JsonBody<SessionChangeBody>,
) -> Result<Json<SessionResource>, HttpError> {
    let session = state.engine.rename_session(id, body.title).await?;
    Ok(Json((&session).into()))
}

pub(super) async fn fork(
    State(state): SharedState,
    PathId(id): PathId<SessionId>,
) -> Result<(StatusCode, Json<SessionResource>), HttpError> {
    let session = state.engine.fork_session(id).await?;
    Ok((StatusCode::CREATED, Json((&session).into())))
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
