//! Finds the session that a request continues. The history decides: a session matches if its
//! conversation looked exactly like this to the same caller after its last answer. No other session
//! is ever continued, except one that the request names.

use std::sync::Arc;

use angelia_core::{
    engine::{EngineError, NewestTurn, TurnStage},
    model::{ExternalName, Role, Seq, SessionId, SessionRecord, TurnId},
};

use super::{
    DialectError, ErrorKind, ModelRequest, conversation::RequestConversation,
    request_hints::RequestHints,
};
use crate::http::{ApiState, keys::Principal};

/// The number of sessions with a matching history that are considered.
const MAX_CANDIDATES: usize = 16;

/// The session that a request is sent to.
#[derive(Debug)]
pub(super) enum SessionMatch {
    /// A new session; named, if the caller gave it a name.
    New(Option<ExternalName>),
    /// A session that has the conversation. No other request can continue it until the claim is
    /// dropped.
    Continues(Arc<SessionRecord>, Option<ContinuationClaim>),
    /// A turn that waits for results of the caller's tools since this event.
    AwaitsToolResults(Arc<SessionRecord>, TurnId, Seq),
    /// An answer that is not the last of its session: the conversation up to it goes to a new
    /// session.
    BranchesAt(TurnId),
}

/// The exclusive right to continue a session after a turn; released on drop.
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

pub(super) async fn find_session(
    state: &Arc<ApiState>,
    who: &Principal,
    ask: &ModelRequest,
    incoming: &RequestConversation,
    marks: &RequestHints,
) -> Result<SessionMatch, DialectError> {
    if let Some(previous) = ask.previous_turn {
        return match_previous(state, who, previous).await;
    }
    let repeats = ask.messages.iter().any(|one| one.role == Role::Assistant);
    if !repeats {
        return match_named(state, who, marks).await;
    }
    let Some(hash) = incoming.lookup_hash() else {
        return Ok(SessionMatch::New(None));
    };
    for note in state.engine.find_by_history(hash, MAX_CANDIDATES).await? {
        if marks.session.is_some_and(|id| id != note.session) {
            continue;
        }
        let Some((session, last)) = session_with_newest_turn(state, note.session).await? else {
            continue;
        };
        if last.id != note.turn {
            // The session has continued differently since.
            continue;
        }
        match last.stage {
            TurnStage::Finished => {
                if let Some(claim) = ContinuationClaim::try_acquire(state, last.id) {
                    return Ok(SessionMatch::Continues(session, Some(claim)));
                }
            }
            TurnStage::AwaitingToolResult
                if state.recent_requests.is_waiting(last.id, note.seq) =>
            {
                return Ok(SessionMatch::AwaitsToolResults(session, last.id, note.seq));
            }
            _ => {}
        }
    }
    Ok(SessionMatch::New(None))
}

/// Matches a request that names the answer it continues and repeats no history.
async fn match_previous(
    state: &ApiState,
    who: &Principal,
    turn: TurnId,
) -> Result<SessionMatch, DialectError> {
    let unknown = || {
        DialectError::new(
            ErrorKind::NotFound,
            "the response that this one continues is not known here",
        )
        .with_hint("send the whole conversation instead")
    };
    let record = match state.engine.turn(turn).await {
        Ok(record) if is_callers_turn(record.options.caller.as_deref(), who) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let Some((session, last)) = session_with_newest_turn(state, record.session).await? else {
        return Err(unknown());
    };
    if last.id != turn {
        return Ok(SessionMatch::BranchesAt(turn));
    }
    match (last.stage, state.recent_requests.take_waiting(turn)) {
        (TurnStage::AwaitingToolResult, Some(seq)) => {
            // Put the mark back: only the delivery of the results consumes it.
            state.recent_requests.mark_waiting(turn, seq);
            Ok(SessionMatch::AwaitsToolResults(session, turn, seq))
        }
        // If the session is busy, the next turn is queued.
        _ => Ok(SessionMatch::Continues(session, None)),
    }
}

/// Matches a request that names its session and repeats no history.
async fn match_named(
    state: &ApiState,
    who: &Principal,
    marks: &RequestHints,
) -> Result<SessionMatch, DialectError> {
    let name = marks
        .session_name
        .as_ref()
        .map(|name| ExternalName { scope: format!("v1:{}", who.name).into(), name: name.clone() });
    let id = match (&name, marks.session) {
        (_, Some(id)) => Some(id),
        (Some(name), None) => state.engine.find_by_name(name).await?,
        (None, None) => None,
    };
    let Some(id) = id else {
        return Ok(SessionMatch::New(name));
    };
    match session_with_newest_turn(state, id).await? {
        Some((session, last)) if is_callers_turn(last.caller.as_deref(), who) => {
            Ok(SessionMatch::Continues(session, None))
        }
        _ if name.is_some() => Ok(SessionMatch::New(None)),
        _ => Err(DialectError::new(ErrorKind::NotFound, format!("there is no session {id}"))
            .with_hint("leave x-angelia-session out; the answer names its session")),
    }
}

/// Returns a session and its newest turn. A session without turns has nothing to continue.
async fn session_with_newest_turn(
    state: &ApiState,
    id: SessionId,
) -> Result<Option<(Arc<SessionRecord>, NewestTurn)>, DialectError> {
    match state.engine.newest_turn(id).await {
        Err(EngineError::NotFound(_)) => Ok(None),
        newest => Ok(newest?),
    }
}

/// Returns whether a turn belongs to this principal; its caller was recorded with it.
pub(super) fn is_callers_turn(turns_caller: Option<&str>, who: &Principal) -> bool {
    turns_caller == recorded_caller(who).as_deref()
}

/// Returns the caller name recorded with the turns of a principal; the owner has none.
pub(super) fn recorded_caller(who: &Principal) -> Option<Arc<str>> {
    (!who.is_owner).then(|| who.name.clone())
}
