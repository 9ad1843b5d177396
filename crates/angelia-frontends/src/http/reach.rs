//! Limits the routes that an agent's process may use over HTTP. Agents run as the owner's user and
//! can read the owner's token, so neither the socket nor the token proves that the owner is calling
//! (`docs/design/0014-local-identities.md`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    model::{Failure, SessionId, TurnId},
    ports::ProfileRequest,
};
use axum::{
    extract::{MatchedPath, Request},
    http::Method,
};

use super::{
    AgentDelegation, ApiState, ConnectionSource, DelegatedTurnLimits, ErrorKind, HttpError,
    Principal, page,
};
use crate::socket::{AgentSessions, LocalCaller};

/// The callers besides the owner that may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteReach {
    /// Everybody, without identification: the route reveals nothing about sessions.
    Everyone,
    /// An agent, for its own session and those that it delegated to.
    OwnSession,
    /// An agent, for the sessions that it delegated to.
    DelegatedSession,
    /// The same, for the session of a turn.
    OwnTurn,
    DelegatedTurn,
    /// An agent; the handler checks the content of the request.
    AnyAgent,
    Owner,
    /// The owner at this machine: a decision needs more than a token. A browser that the owner
    /// signed in may be elsewhere, because its code came from this machine.
    LocalOwner,
    /// The owner at this machine, but not a page in a browser.
    OwnersProgram,
}

impl RouteReach {
    const fn is_owners(self) -> bool {
        matches!(self, Self::Owner | Self::LocalOwner | Self::OwnersProgram)
    }
}

/// Returns the reach of a route. An unlisted route is the owner's.
fn route_reach(method: &Method, path: &str) -> RouteReach {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    match (method, path) {
        (
            "GET",
            "/healthz" | "/readyz" | "/metrics" | "/openapi.json" | "/" | "/api/hello"
            | "/v1/models" | "/v1/models/{*id}" | page::FILES_PATH,
        )
        // In agent mode, `dialect` identifies the caller; model mode reaches nothing here.
        | (
            "POST",
            "/v1/messages" | "/v1/messages/count_tokens" | "/v1/chat/completions" | "/v1/responses"
            // The code itself grants access.
            | "/api/login"
            // The signature decides.
            | "/hooks/{name}",
        ) => RouteReach::Everyone,
        ("GET", "/api/profiles" | "/api/executors" | "/api/bus/endpoints" | "/api/turns")
        | ("POST", "/api/sessions" | "/api/bus/messages") => RouteReach::AnyAgent,
        ("GET", "/api/sessions/{session}") => RouteReach::OwnSession,
        ("POST", "/api/sessions/{session}/turns") => RouteReach::DelegatedSession,
        ("GET", "/api/turns/{turn}" | "/api/turns/{turn}/events") => RouteReach::OwnTurn,
        ("POST", "/api/turns/{turn}/interrupt" | "/api/turns/{turn}/steer") => {
            RouteReach::DelegatedTurn
        }
        ("POST", "/api/approvals/{approval}") => RouteReach::LocalOwner,
        ("POST", "/api/config/reload" | "/api/restart" | "/api/login/codes") => {
            RouteReach::OwnersProgram
        }
        _ => RouteReach::Owner,
    }
}

/// Checks that the process behind an owner's request may use the route. A request from an agent
/// gets its [`AgentCaller`] as an extension.
pub(super) async fn check(
    state: &ApiState,
    request: &mut Request,
    principal: &Principal,
) -> Result<(), HttpError> {
    // A key is its own authority, and a path without a route is refused anyway.
    if !principal.is_owner {
        return Ok(());
    }
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return Ok(());
    };
    let mut reach = route_reach(request.method(), path.as_str());
    // A client that holds a turn interrupts it by disconnecting, so holding requires the same right
    // as interrupting.
    let holds = request.uri().query().is_some_and(|query| query.contains("hold"));
    if reach == RouteReach::OwnTurn && holds {
        reach = RouteReach::DelegatedTurn;
    }
    if reach == RouteReach::Everyone {
        return Ok(());
    }
    let Some(source) = request.extensions().get::<ConnectionSource>().cloned() else {
        return Err(HttpError::internal("the listener did not attach the connection's source"));
    };
    match source.caller().await {
        _ if reach == RouteReach::OwnersProgram && principal.browser.is_some() => {
            Err(not_for_pages())
        }
        LocalCaller::Remote
            if reach == RouteReach::OwnersProgram
                || (reach == RouteReach::LocalOwner && principal.browser.is_none()) =>
        {
            Err(not_local())
        }
        LocalCaller::Owner | LocalCaller::Remote => Ok(()),
        LocalCaller::Unidentified => Err(unidentified()),
        LocalCaller::Agent(_) if reach.is_owners() => Err(owner_only()),
        LocalCaller::Agent(marks) => {
            let agent = AgentCaller::find(&state.agents, &marks)?;
            agent.check(state, reach, path_id(request)).await?;
            request.extensions_mut().insert(agent);
            Ok(())
        }
    }
}

/// Returns the id in a path such as `/api/sessions/ID/turns`.
fn path_id(request: &Request) -> &str {
    request.uri().path().split('/').nth(3).unwrap_or_default()
}

/// The sessions of the agents that started the process behind a request, nearest first. An agent
/// inside another agent's process has several, and reaches only what all of them reach.
#[derive(Clone, Debug)]
pub(super) struct AgentCaller {
    sessions: Arc<[SessionId]>,
    access: Arc<AgentAccess>,
}

impl AgentCaller {
    fn find(access: &Arc<AgentAccess>, marks: &[String]) -> Result<Self, HttpError> {
        // A process that serves several sessions has a mark that belongs to none of them.
        let sessions: Vec<_> =
            marks.iter().filter_map(|mark| access.sessions.session_of(mark)).collect();
        if sessions.is_empty() {
            return Err(unknown_session());
        }
        Ok(Self { sessions: sessions.into(), access: Arc::clone(access) })
    }

    async fn check(&self, state: &ApiState, reach: RouteReach, id: &str) -> Result<(), HttpError> {
        let session = match reach {
            RouteReach::Everyone | RouteReach::AnyAgent => return Ok(()),
            RouteReach::Owner | RouteReach::LocalOwner | RouteReach::OwnersProgram => {
                return Err(owner_only());
            }
            RouteReach::OwnSession | RouteReach::DelegatedSession => {
                id.parse().map_err(|_| not_reached())?
            }
            RouteReach::OwnTurn | RouteReach::DelegatedTurn => {
                let turn: TurnId = id.parse().map_err(|_| not_reached())?;
                let turn = state.engine.turn(turn).await.map_err(|_| not_reached())?;
                turn.session
            }
        };
        match reach {
            RouteReach::DelegatedSession | RouteReach::DelegatedTurn => {
                self.ensure_delegated(session).await
            }
            _ => self.ensure_reaches(session).await,
        }
    }

    /// Returns the acting session: that of the nearest agent.
    fn session(&self) -> Result<SessionId, HttpError> {
        self.sessions.first().copied().ok_or_else(unknown_session)
    }

    /// Returns the session of the outermost agent. No process can change its ancestors' marks.
    pub(super) fn outermost_session(&self) -> Option<SessionId> {
        self.sessions.last().copied()
    }

    /// Checks that a session is the agent's own or one that it delegated to.
    pub(super) async fn ensure_reaches(&self, session: SessionId) -> Result<(), HttpError> {
        for own in &*self.sessions {
            if !self.access.is_within(session, *own).await? {
                return Err(not_reached());
            }
        }
        Ok(())
    }

    async fn ensure_delegated(&self, session: SessionId) -> Result<(), HttpError> {
        if self.sessions.contains(&session) {
            return Err(not_reached());
        }
        self.ensure_reaches(session).await
    }

    /// Checks that the agent may create the session that this request describes.
    pub(super) async fn check_new_session(
        &self,
        state: &ApiState,
        wanted: ProfileRequest,
    ) -> Result<angelia_core::model::SessionSpec, HttpError> {
        let spec = state.profiles.resolve(wanted).await?;
        for own in &*self.sessions {
            self.access.delegation.check_delegation(*own, &spec).await.map_err(refused)?;
        }
        Ok(spec)
    }

    /// Remembers that the agent created a session, until the session's first turn records it.
    pub(super) fn add_created(&self, session: SessionId) -> Result<(), HttpError> {
        let creator = self.session()?;
        let mut created = self.access.created();
        if created.len() >= MAX_CREATED {
            created.clear();
        }
        created.insert(session, creator);
        Ok(())
    }

    /// Returns the session that delegates a turn to `to`, and the limits of the turn.
    pub(super) async fn delegate_turn(
        &self,
        state: &ApiState,
        to: SessionId,
    ) -> Result<(SessionId, DelegatedTurnLimits), HttpError> {
        let spec = state.engine.session(to).await?.spec;
        for own in &*self.sessions {
            self.access.delegation.check_delegation(*own, &spec).await.map_err(refused)?;
        }
        let from = self.session()?;
        let limits = self.access.delegation.turn_limits(from).await.map_err(refused)?;
        Ok((from, limits))
    }
}

/// More sessions than agents create before they submit their first turns.
const MAX_CREATED: usize = 4096;

/// Decides which routes and sessions agents may reach.
pub struct AgentAccess {
    sessions: Arc<dyn AgentSessions>,
    delegation: Arc<dyn AgentDelegation>,
    /// Sessions that agents created, and the sessions of those agents.
    created: Mutex<HashMap<SessionId, SessionId>>,
}

impl AgentAccess {
    pub fn new(sessions: Arc<dyn AgentSessions>, delegation: Arc<dyn AgentDelegation>) -> Self {
        Self { sessions, delegation, created: Mutex::default() }
    }

    fn created(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, SessionId>> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn is_within(&self, session: SessionId, top: SessionId) -> Result<bool, HttpError> {
        let creator = self.created().get(&session).copied();
        if self.delegation.is_within(session, top).await? {
            return Ok(true);
        }
        match creator {
            Some(creator) => Ok(self.delegation.is_within(creator, top).await?),
            None => Ok(false),
        }
    }
}

impl std::fmt::Debug for AgentAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentAccess").finish_non_exhaustive()
    }
}

fn not_granted(message: &str, hint: &str) -> HttpError {
    HttpError::new(ErrorKind::NotGranted, message).with_hint(hint)
}

pub(super) fn owner_only() -> HttpError {
    not_granted(
        "an agent's process cannot do this",
        "do it yourself, in a terminal that no agent has started",
    )
}

fn not_reached() -> HttpError {
    not_granted(
        "an agent's process reaches only its own session and those it delegated to",
        "use the tools of `angelia mcp`, which show what this session may see",
    )
}

fn unknown_session() -> HttpError {
    not_granted(
        "cannot tell which session is asking",
        "an agent's process can ask only while a session uses it",
    )
}

/// Returns the error for a process that cannot be identified. It may be the owner's, so the message
/// does not call it an agent's.
pub(super) fn unidentified() -> HttpError {
    not_granted(
        "cannot tell which process is asking",
        "it has exited, or the daemon does not see it in its /proc, as in another container; ask from \
         where the daemon runs",
    )
}

fn not_local() -> HttpError {
    not_granted(
        "a decision needs the owner at this machine",
        "decide it over the Unix socket or over loopback, with `angelia approvals`",
    )
}

fn not_for_pages() -> HttpError {
    not_granted(
        "a page in a browser cannot do this",
        "do it in a terminal: pages read the configuration, and do not change it",
    )
}

fn refused(failure: Failure) -> HttpError {
    let error = HttpError::new(ErrorKind::NotGranted, failure.message.to_string());
    match failure.hint {
        Some(hint) => error.with_hint(hint.to_string()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_is_not_listed_is_the_owners() {
        for (method, path) in [
            (Method::DELETE, "/api/sessions/{session}"),
            (Method::POST, "/api/something/new"),
            (Method::PUT, "/healthz"),
        ] {
            assert_eq!(route_reach(&method, path), RouteReach::Owner, "{method} {path}");
        }
        assert_eq!(route_reach(&Method::HEAD, "/healthz"), RouteReach::Everyone);
    }
}
