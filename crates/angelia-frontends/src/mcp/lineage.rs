//! Finds the session that delegated to another. A delegated turn is recorded with the delegating
//! agent's session as its caller. The nesting depth of a session, and the sessions that an agent
//! may see, follow from this.

use std::sync::Arc;

use angelia_core::{
    engine::{Engine, EngineError},
    model::{OWNER_ACCOUNT, SessionId, TurnRecord, TurnState},
    ports::{Page, Store, StoreError},
};

/// The limit on nested delegation, from one agent to the next.
pub const MAX_DELEGATION_DEPTH: usize = 3;

/// The prefix of the delegating session's id in a turn's `caller`.
const CALLER_PREFIX: &str = "session:";

/// How many of the newest turns are searched for a running one.
const MAX_SCANNED_TURNS: usize = 64;

/// Returns the `caller` of a turn that this session delegated.
pub fn caller_name(session: SessionId) -> Arc<str> {
    format!("{CALLER_PREFIX}{session}").into()
}

/// Returns the session that delegated the turns of this `caller`.
pub(crate) fn delegating_session(caller: &str) -> Option<SessionId> {
    caller.strip_prefix(CALLER_PREFIX)?.parse().ok()
}

/// Returns the running turn of a session, or else its latest one.
pub async fn current_turn(
    store: &dyn Store,
    session: SessionId,
) -> Result<Option<TurnRecord>, StoreError> {
    Ok(find_current(store.turns(Some(session), Page::first(MAX_SCANNED_TURNS)).await?))
}

/// Returns the account that pays for the work that this session delegates now.
pub(crate) async fn account_of_session(
    engine: &Engine,
    session: SessionId,
) -> Result<Arc<str>, EngineError> {
    let turns = engine.turns(Some(session), Page::first(MAX_SCANNED_TURNS)).await?;
    Ok(account(find_current(turns).as_ref()))
}

/// Returns the account that pays for the work that a turn delegates: the one that pays for the turn
/// itself.
pub fn account(turn: Option<&TurnRecord>) -> Arc<str> {
    let account = turn.and_then(|turn| turn.options.account());
    account.cloned().unwrap_or_else(|| OWNER_ACCOUNT.into())
}

/// Returns the running turn among a session's newest ones, or else the latest.
fn find_current(turns: Vec<TurnRecord>) -> Option<TurnRecord> {
    let is_running = |turn: &TurnRecord| {
        !matches!(
            turn.state,
            TurnState::Queued | TurnState::HandedOver | TurnState::Finished { .. }
        )
    };
    let running = turns.iter().position(is_running);
    turns.into_iter().nth(running.unwrap_or(0))
}

/// Returns the session that delegated the current turn of this one.
async fn parent_session(
    store: &dyn Store,
    session: SessionId,
) -> Result<Option<SessionId>, StoreError> {
    let turn = current_turn(store, session).await?;
    Ok(turn.and_then(|turn| delegating_session(turn.options.caller.as_deref()?)))
}

/// Returns the number of agents between this session and a person or program, at most one more than
/// [`MAX_DELEGATION_DEPTH`].
pub async fn delegation_depth(store: &dyn Store, session: SessionId) -> Result<usize, StoreError> {
    let (mut at, mut depth) = (session, 0);
    while depth <= MAX_DELEGATION_DEPTH
        && let Some(above) = parent_session(store, at).await?
    {
        (at, depth) = (above, depth + 1);
    }
    Ok(depth)
}

/// Returns whether `session` is `top` itself, or was started by delegation from it.
pub async fn is_same_or_descendant(
    store: &dyn Store,
    session: SessionId,
    top: SessionId,
) -> Result<bool, StoreError> {
    let mut at = session;
    for _ in 0..=MAX_DELEGATION_DEPTH {
        if at == top {
            return Ok(true);
        }
        match parent_session(store, at).await? {
            Some(above) => at = above,
            None => return Ok(false),
        }
    }
    Ok(false)
}
