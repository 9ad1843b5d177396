//! `/api/sessions`.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::{EngineError, NewSession},
    model::{ExternalName, SessionId, SessionRecord},
    ports::Wanted,
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{
    super::{
        ApiError, ApiState, Caller, OWNERS_NAMES,
        body::{JsonBody, QueryOf},
        openapi::shapes,
        resources::{List, Session},
    },
    Id,
    paging::PageQuery,
};

type Shared = State<Arc<ApiState>>;

pub(super) async fn list(
    State(state): Shared,
    QueryOf(query): QueryOf<PageQuery>,
) -> Result<Json<List<Session>>, ApiError> {
    if let Some(name) = &query.name {
        return named(&state, name).await;
    }
    let sessions = state.engine.sessions(query.page()?).await?;
    let id = |session: &SessionRecord| session.id.to_string();
    Ok(Json(query.list(&sessions, id, |record| record.into())))
}

async fn named(state: &ApiState, name: &str) -> Result<Json<List<Session>>, ApiError> {
    let mut found = Vec::new();
    if let Some(id) = state.engine.named(&owners_name(name)).await? {
        match state.engine.session(id).await {
            Ok(session) => found.push((&session).into()),
            Err(EngineError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(List::whole(found)))
}

fn owners_name(name: &str) -> ExternalName {
    ExternalName { scope: OWNERS_NAMES.into(), name: name.into() }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::http) struct NewSessionBody {
    profile: Option<Arc<str>>,
    /// An absolute path.
    #[schemars(extend("pattern" = "^/"))]
    cwd: Option<PathBuf>,
    /// The caller's directory, for profiles that set no directory of their own.
    #[schemars(extend("pattern" = "^/"))]
    caller_cwd: Option<PathBuf>,
    model: Option<Arc<str>>,
    title: Option<Arc<str>>,
    /// The owner's name for the session. A session that had this name before loses it.
    name: Option<String>,
}

pub(super) async fn create(
    State(state): Shared,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<NewSessionBody>,
) -> Result<(StatusCode, Json<Session>), ApiError> {
    for (field, path) in [("cwd", &body.cwd), ("caller_cwd", &body.caller_cwd)] {
        if path.as_ref().is_some_and(|path| !path.is_absolute()) {
            let message = format!("{field}: this must be an absolute path");
            return Err(ApiError::invalid(message));
        }
    }
    let wanted = Wanted {
        profile: body.profile,
        target: None,
        cwd: body.cwd,
        caller_cwd: body.caller_cwd,
        model: body.model,
        at_terminal: caller.is_terminal(&headers).await,
    };
    let new = NewSession {
        spec: state.profiles.spec(wanted).await?,
        title: body.title,
        name: body.name.as_deref().map(owners_name),
    };
    let session = state.engine.create_session(new).await?;
    Ok((StatusCode::CREATED, Json((&session).into())))
}

pub(super) async fn show(
    State(state): Shared,
    Id(id): Id<SessionId>,
) -> Result<Json<Session>, ApiError> {
    Ok(Json((&state.engine.session(id).await?).into()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ChangeBody {
    /// `null` removes the title; the field itself is required.
    #[serde(deserialize_with = "required")]
    #[schemars(schema_with = "shapes::text_or_null")]
    title: Option<Arc<str>>,
}

fn required<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Arc<str>>, D::Error> {
    Option::deserialize(value)
}

pub(super) async fn change(
    State(state): Shared,
    Id(id): Id<SessionId>,
    JsonBody(body): JsonBody<ChangeBody>,
) -> Result<Json<Session>, ApiError> {
    let session = state.engine.rename_session(id, body.title).await?;
    Ok(Json((&session).into()))
}

pub(super) async fn fork(
    State(state): Shared,
    Id(id): Id<SessionId>,
) -> Result<(StatusCode, Json<Session>), ApiError> {
    let session = state.engine.fork_session(id).await?;
    Ok((StatusCode::CREATED, Json((&session).into())))
}

pub(super) async fn delete(
    State(state): Shared,
    Id(id): Id<SessionId>,
) -> Result<StatusCode, ApiError> {
    state.engine.delete_session(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
