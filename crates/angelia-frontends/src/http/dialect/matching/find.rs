//! Finds the session that a request continues. The history decides: a session matches if its
//! conversation looked exactly like this to the same caller after its last answer. No other session
//! is ever continued, unless the request names it.

use std::sync::Arc;

use angelia_core::{
    engine::{EngineError, NewestTurn, TurnStage},
    model::{ExternalName, Role, Seq, SessionId, SessionRecord, TurnId},
};

use crate::http::{ApiState, ErrorKind, HttpError, dialect::request::ResolvedRequest};

/// How many sessions with a matching history are considered.
const MAX_CANDIDATES: usize = 16;

/// The session for a request.
#[derive(Debug)]
pub(super) enum SessionMatch {
    /// A new session, with a name if the caller gave one.
    New(Option<ExternalName>),
    /// A session that has the conversation. Until the claim is dropped, no other request can
    /// continue it.
    Continues(Arc<SessionRecord>, Option<ContinuationClaim>),
    /// A turn that has been waiting for results of the caller's tools since this event.
    AwaitsToolResults(Arc<SessionRecord>, TurnId, Seq),
    /// An answer that is not the last of its session. The conversation up to this answer goes to a
    /// new session.
    BranchesAt(TurnId),
}

/// The exclusive right to continue a session after a turn. Released on drop.
#[derive(Debug)]
pub(super) struct ContinuationClaim {
    state: Arc<ApiState>,
    turn: TurnId,
}

impl ContinuationClaim {
    fn try_acquire(state: &Arc<ApiState>, turn: TurnId) -> Option<Self> {
        state.recent_requests.claim(turn).then(|| Self { state: Arc::clone(state), turn })
    }
}

impl Drop for ContinuationClaim {
    fn drop(&mut self) {
        self.state.recent_requests.release(self.turn);
    }
}

pub(super) async fn find_session(request: &ResolvedRequest) -> Result<SessionMatch, HttpError> {
    if let Some(previous) = request.body.previous_turn {
        return match_previous(request, previous).await;
    }
    let repeats_history = request.body.messages.iter().any(|one| one.role == Role::Assistant);
    if !repeats_history {
        return match_named(request).await;
    }
    let Some(hash) = request.conversation.lookup_hash else {
        return Ok(SessionMatch::New(None));
    };
    let state = &request.state;
    for entry in state.engine.find_by_history(hash, MAX_CANDIDATES).await? {
        if request.hints.session.is_some_and(|id| id != entry.session) {
            continue;
        }
        // Claim before reading the newest turn: otherwise another request could continue the session
        // and release its claim in between, and both would be submitted to one session.
        let claim = ContinuationClaim::try_acquire(state, entry.turn);
        let Some((session, last)) = session_with_newest_turn(state, entry.session).await? else {
            continue;
        };
        if last.id != entry.turn {
            // The session has since continued in another way.
            continue;
        }
        match last.stage {
            TurnStage::Finished if claim.is_some() => {
                return Ok(SessionMatch::Continues(session, claim));
            }
            TurnStage::AwaitingToolResult
                if state.recent_requests.waiting_since(last.id) == Some(entry.seq) =>
            {
                return Ok(SessionMatch::AwaitsToolResults(session, last.id, entry.seq));
            }
            _ => {}
        }
    }
    Ok(SessionMatch::New(None))
}

/// Matches a request that names the answer it continues and repeats no history.
async fn match_previous(
    request: &ResolvedRequest,
    turn: TurnId,
) -> Result<SessionMatch, HttpError> {
    let state = &request.state;
    let unknown = || {
        HttpError::new(
            ErrorKind::NotFound,
            "the response that this one continues is not known here",
        )
        .with_hint("send the whole conversation instead")
    };
    let record = match state.engine.turn(turn).await {
        Ok(record) if request.principal.owns_turn_of(record.options.caller.as_deref()) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let Some((session, last)) = session_with_newest_turn(state, record.session).await? else {
        return Err(unknown());
    };
    if last.id != turn {
        return Ok(SessionMatch::BranchesAt(turn));
    }
    match (last.stage, state.recent_requests.waiting_since(turn)) {
        (TurnStage::AwaitingToolResult, Some(seq)) => {
            Ok(SessionMatch::AwaitsToolResults(session, turn, seq))
        }
        // If the session is busy, the next turn is queued.
        _ => Ok(SessionMatch::Continues(session, None)),
    }
}

/// Matches a request that names its session and repeats no history.
async fn match_named(request: &ResolvedRequest) -> Result<SessionMatch, HttpError> {
    let (state, principal) = (&request.state, &request.principal);
    let name = request.hints.session_name.as_ref().map(|name| ExternalName {
        scope: format!("v1:{}", principal.name).into(),
        name: Arc::clone(name),
    });
    let id = match (&name, request.hints.session) {
        (_, Some(id)) => Some(id),
        (Some(name), None) => state.engine.find_by_name(name).await?,
        (None, None) => None,
    };
    let Some(id) = id else {
        return Ok(SessionMatch::New(name));
    };
    match session_with_newest_turn(state, id).await? {
        Some((session, last)) if principal.owns_turn_of(last.caller.as_deref()) => {
            Ok(SessionMatch::Continues(session, None))
        }
        _ if name.is_some() => Ok(SessionMatch::New(None)),
        _ => Err(HttpError::new(ErrorKind::NotFound, format!("there is no session {id}"))
            .with_hint("leave x-angelia-session out; the answer names its session")),
    }
}

/// Returns a session and its newest turn. A session without turns has nothing to continue.
async fn session_with_newest_turn(
    state: &ApiState,
    id: SessionId,
) -> Result<Option<(Arc<SessionRecord>, NewestTurn)>, HttpError> {
    match state.engine.newest_turn(id).await {
        Err(EngineError::NotFound(_)) => Ok(None),
        newest => Ok(newest?),
    }
}
