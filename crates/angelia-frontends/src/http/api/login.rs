//! `/api/login`: signs a browser in with a code; lists and revokes browsers.

use std::net::SocketAddr;

use angelia_core::model::{AuditAction, AuditActor, BrowserRecord};
use axum::{
    Extension, Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};
use uuid::Uuid;

use super::{
    super::{
        ConnectionSource, ErrorKind, HttpError, Principal, dialect::json::parse_object,
        logins::browser_name, resources::ResourceList, state::SharedState,
    },
    PathId,
};
use crate::event_json::time::Rfc3339;

/// More than a code needs.
const MAX_BODY_BYTES: usize = 4096;

/// An address that opens the page signed in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LoginCode")]
pub struct LoginCodeResource {
    /// Works once. The code is in the fragment, which no server and no log ever sees.
    pub url: String,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginBody {
    /// What `angelia dashboard` has printed.
    pub code: String,
}

/// The token of a browser that has just signed in.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Login")]
pub(in crate::http) struct LoginResource {
    token: String,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    expires_at: Timestamp,
}

/// A browser that the owner is signed in with.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Browser")]
pub(in crate::http) struct BrowserResource {
    #[serde(with = "As::<DisplayFromStr>")]
    #[schemars(with = "String")]
    id: Uuid,
    name: String,
    /// Whether it is the one that asks.
    current: bool,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    created_at: Timestamp,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    used_at: Timestamp,
    #[serde(with = "As::<Rfc3339>")]
    #[schemars(with = "String")]
    expires_at: Timestamp,
}

impl BrowserResource {
    fn new(browser: &BrowserRecord, current: Option<Uuid>) -> Self {
        Self {
            id: browser.id,
            name: browser.name.to_string(),
            current: current == Some(browser.id),
            created_at: browser.created_at,
            used_at: browser.used_at,
            expires_at: browser.expires_at,
        }
    }
}

/// Creates a code for a command on this machine. The token alone does not suffice, because agents
/// can read it.
pub(super) async fn make_code(
    State(state): SharedState,
    Extension(source): Extension<ConnectionSource>,
) -> Result<(StatusCode, Json<LoginCodeResource>), HttpError> {
    if matches!(source, ConnectionSource::Tcp(_)) {
        let message = "a code is made only for the owner at this machine";
        return Err(HttpError::new(ErrorKind::NotGranted, message)
            .with_hint("run `angelia dashboard`, which asks over the Unix socket"));
    }
    let made = state.logins.make_code();
    let expires_at = state.engine.now().checked_add(made.lifetime).unwrap_or(Timestamp::MAX);
    let url = format!("http://{}/#code={}", page_address(&state.daemon.address), made.code);
    Ok((StatusCode::CREATED, Json(LoginCodeResource { url, expires_at })))
}

/// Returns the address of the page for a browser on this machine. A daemon that listens on all
/// addresses is also on loopback.
fn page_address(listened_on: &str) -> String {
    match listened_on.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => format!("127.0.0.1:{}", address.port()),
        _ => listened_on.to_owned(),
    }
}

pub(super) async fn sign_in(
    State(state): SharedState,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<LoginResource>), HttpError> {
    let body = read_body(body).await?;
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let name = browser_name(agent.unwrap_or_default());
    let new = state.logins.sign_in(body.code.trim(), &name).await?;
    let subject = format!("{name} signed in");
    state.engine.record_audit(AuditActor::Browser, AuditAction::Login, subject).await;
    let expires_at = new.record.expires_at;
    Ok((StatusCode::CREATED, Json(LoginResource { token: new.token, expires_at })))
}

/// Reads the body of a caller that has no token yet.
async fn read_body(body: Body) -> Result<LoginBody, HttpError> {
    let read = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let bytes = read
        .map_err(|_| HttpError::invalid("the body of a login is a short JSON object"))?
        .to_bytes();
    parse_object(&bytes).map_err(|error| HttpError::invalid(error.to_string()))
}

pub(super) async fn browsers(
    State(state): SharedState,
    Extension(principal): Extension<Principal>,
) -> Result<Json<ResourceList<BrowserResource>>, HttpError> {
    let current = principal.browser.as_ref().map(|browser| browser.id);
    let browsers = state.logins.list().await?;
    let data = browsers.iter().map(|one| BrowserResource::new(one, current)).collect();
    Ok(Json(ResourceList::whole(data)))
}

pub(super) async fn revoke(
    State(state): SharedState,
    PathId(id): PathId<Uuid>,
    Extension(source): Extension<ConnectionSource>,
) -> Result<StatusCode, HttpError> {
    let Some(name) = state.logins.revoke(id).await? else {
        return Err(HttpError::new(ErrorKind::NotFound, "no such browser")
            .with_hint("GET /api/login/browsers lists those that are signed in"));
    };
    let subject = format!("{name} signed out");
    let actor = source.audit_actor().await;
    state.engine.record_audit(actor, AuditAction::Login, subject).await;
    Ok(StatusCode::NO_CONTENT)
}
