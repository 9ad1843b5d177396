//! Who began which session. A turn that was handed on by an agent is recorded with that agent's
//! session as its caller; from this follows how deep a session stands and what an agent may see.

use std::sync::Arc;

use angelia_core::{
    model::{SessionId, TurnRecord, TurnState},
    ports::{Page, Store, StoreError},
};

/// How often work is handed on, from one agent to the next, before it must be done.
pub const DEEPEST: usize = 3;

/// Before the id of the session that handed a turn on.
const PREFIX: &str = "session:";

/// How far back a turn is looked for that has not ended.
const LOOKED_THROUGH: usize = 64;

/// What a turn's `caller` is when an agent's session handed it on.
pub fn caller_name(session: SessionId) -> Arc<str> {
    format!("{PREFIX}{session}").into()
}

fn caller(turn: &TurnRecord) -> Option<SessionId> {
    let name = turn.options.caller.as_deref()?;
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// The turn that a session is busy with; without one, its last.
pub async fn current_turn(
    store: &dyn Store,
    session: SessionId,
) -> Result<Option<TurnRecord>, StoreError> {
    let turns = store.turns(Some(session), Page::first(LOOKED_THROUGH)).await?;
    let is_running =
        |turn: &TurnRecord| !matches!(turn.state, TurnState::Queued | TurnState::Finished { .. });
    let running = turns.iter().position(is_running);
    Ok(turns.into_iter().nth(running.unwrap_or(0)))
}

/// The session that handed the current turn of this one on.
async fn parent(store: &dyn Store, session: SessionId) -> Result<Option<SessionId>, StoreError> {
    let turn = current_turn(store, session).await?;
    Ok(turn.as_ref().and_then(caller))
}

/// How many agents stand between this session and a person or program; never more than one above
/// [`DEEPEST`].
pub async fn depth(store: &dyn Store, session: SessionId) -> Result<usize, StoreError> {
    let (mut at, mut depth) = (session, 0);
    while depth <= DEEPEST
        && let Some(above) = parent(store, at).await?
    {
        (at, depth) = (above, depth + 1);
    }
    Ok(depth)
}

/// Is it the same, or was it begun by handing work on from there?
pub async fn is_below(
    store: &dyn Store,
    session: SessionId,
    top: SessionId,
) -> Result<bool, StoreError> {
    let mut at = session;
    for _ in 0..=DEEPEST {
        if at == top {
            return Ok(true);
        }
        match parent(store, at).await? {
            Some(above) => at = above,
            None => return Ok(false),
        }
    }
    Ok(false)
}
