//! Finds the session that a request continues. The history decides: a session matches if its
//! conversation looked exactly like this to the same caller after its last answer. No other session
//! is ever continued, except one that the request names.

use std::sync::Arc;

use angelia_core::{
    engine::{EngineError, Newest, Stage},
    model::{ExternalName, Role, Seq, SessionId, SessionRecord, TurnId},
};

use super::{Ask, DialectError, ErrorKind, incoming::Incoming, marks::Marks};
use crate::http::{ApiState, keys::Who};

/// The number of sessions with a matching history that are considered.
const CANDIDATES: usize = 16;

/// The session that a request is sent to.
#[derive(Debug)]
pub(super) enum Place {
    /// A new session; named, if the caller gave it a name.
    New(Option<ExternalName>),
    /// A session that has the conversation. No other request can continue it until the claim is
    /// dropped.
    Continues(Arc<SessionRecord>, Option<Claim>),
    /// A turn that waits for results of the caller's tools since this event.
    Waits(Arc<SessionRecord>, TurnId, Seq),
    /// An answer that is not the last of its session: the conversation up to it goes to a new
    /// session.
    BranchesAt(TurnId),
}

/// The exclusive right to continue a session after a turn; released on drop.
#[derive(Debug)]
pub(super) struct Claim {
    state: Arc<ApiState>,
    turn: TurnId,
}

impl Claim {
    fn take(state: &Arc<ApiState>, turn: TurnId) -> Option<Self> {
        state.recent.claim(turn).then(|| Self { state: Arc::clone(state), turn })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.state.recent.release(self.turn);
    }
}

pub(super) async fn place(
    state: &Arc<ApiState>,
    who: &Who,
    ask: &Ask,
    incoming: &Incoming,
    marks: &Marks,
) -> Result<Place, DialectError> {
    if let Some(previous) = ask.previous {
        return after(state, who, previous).await;
    }
    let repeats = ask.messages.iter().any(|one| one.role == Role::Assistant);
    if !repeats {
        return named(state, who, marks).await;
    }
    let Some(hash) = incoming.sought() else {
        return Ok(Place::New(None));
    };
    for note in state.engine.with_history(hash, CANDIDATES).await? {
        if marks.session.is_some_and(|id| id != note.session) {
            continue;
        }
        let Some((session, last)) = session(state, note.session).await? else {
            continue;
        };
        if last.id != note.turn {
            // The session has continued differently since.
            continue;
        }
        match last.stage {
            Stage::Over => {
                if let Some(claim) = Claim::take(state, last.id) {
                    return Ok(Place::Continues(session, Some(claim)));
                }
            }
            Stage::AwaitsToolResult if state.recent.is_waiting(last.id, note.seq) => {
                return Ok(Place::Waits(session, last.id, note.seq));
            }
            _ => {}
        }
    }
    Ok(Place::New(None))
}

/// Matches a request that names the answer it continues and repeats no history.
async fn after(state: &ApiState, who: &Who, turn: TurnId) -> Result<Place, DialectError> {
    let unknown = || {
        DialectError::new(
            ErrorKind::NotFound,
            "the response that this one continues is not known here",
        )
        .with_hint("send the whole conversation instead")
    };
    let record = match state.engine.turn(turn).await {
        Ok(record) if is_theirs(record.options.caller.as_deref(), who) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let Some((session, last)) = session(state, record.session).await? else {
        return Err(unknown());
    };
    if last.id != turn {
        return Ok(Place::BranchesAt(turn));
    }
    match (last.stage, state.recent.take_waiting(turn)) {
        (Stage::AwaitsToolResult, Some(seq)) => {
            // Put the mark back: only the delivery of the results consumes it.
            state.recent.waits(turn, seq);
            Ok(Place::Waits(session, turn, seq))
        }
        // If the session is busy, the next turn is queued.
        _ => Ok(Place::Continues(session, None)),
    }
}

/// Matches a request that names its session and repeats no history.
async fn named(state: &ApiState, who: &Who, marks: &Marks) -> Result<Place, DialectError> {
    let name = marks
        .name
        .as_ref()
        .map(|name| ExternalName { scope: format!("v1:{}", who.name).into(), name: name.clone() });
    let id = match (&name, marks.session) {
        (_, Some(id)) => Some(id),
        (Some(name), None) => state.engine.named(name).await?,
        (None, None) => None,
    };
    let Some(id) = id else {
        return Ok(Place::New(name));
    };
    match session(state, id).await? {
        Some((session, last)) if is_theirs(last.caller.as_deref(), who) => {
            Ok(Place::Continues(session, None))
        }
        _ if name.is_some() => Ok(Place::New(None)),
        _ => Err(DialectError::new(ErrorKind::NotFound, format!("there is no session {id}"))
            .with_hint("leave x-angelia-session out; the answer names its session")),
    }
}

/// Returns a session and its newest turn. A session without turns has nothing to continue.
async fn session(
    state: &ApiState,
    id: SessionId,
) -> Result<Option<(Arc<SessionRecord>, Newest)>, DialectError> {
    match state.engine.newest(id).await {
        Err(EngineError::NotFound(_)) => Ok(None),
        newest => Ok(newest?),
    }
}

/// Returns whether a turn belongs to this principal; its caller was recorded with it.
pub(super) fn is_theirs(turns_caller: Option<&str>, who: &Who) -> bool {
    turns_caller == caller(who).as_deref()
}

/// Returns the caller name recorded with the turns of a principal; the owner has none.
pub(super) fn caller(who: &Who) -> Option<Arc<str>> {
    (!who.is_owner).then(|| who.name.clone())
}
