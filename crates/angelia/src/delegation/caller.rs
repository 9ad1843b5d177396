//! The session of a delegating agent: its depth in the chain of delegations, and what is left of
//! its budgets. Everything is read from the store.

use std::sync::Arc;

use angelia_core::{
    model::{EventKind, SessionId, SessionRecord, TurnId, TurnRecord, Usage},
    ports::Store,
};
use angelia_frontends::mcp::{ToolCallError, lineage};
use jiff::Timestamp;
use tokio::time::Instant;

/// Number of events of the calling turn that are read at once.
const EVENTS_PER_PAGE: usize = 256;

/// The session of a delegating agent, and what is left of its budgets.
#[derive(Clone, Debug)]
pub(crate) struct DelegatingSession {
    pub(crate) session: SessionRecord,
    /// Whether a person can decide the approvals of its turn.
    pub(crate) can_ask: bool,
    /// The account that pays for its turn, and thus for the work that it delegates.
    pub(crate) account: Arc<str>,
    pub(crate) depth: usize,
    pub(crate) remaining_cost_usd: Option<f64>,
    pub(crate) deadline: Option<Instant>,
}

impl DelegatingSession {
    pub(crate) async fn load(store: &dyn Store, id: SessionId) -> Result<Self, ToolCallError> {
        let session = store.session(id).await?;
        let session =
            session.ok_or_else(|| ToolCallError::new("the calling session has been deleted"))?;
        let depth = lineage::delegation_depth(store, id).await?;
        let turn = lineage::current_turn(store, id).await?;
        let can_ask = turn.as_ref().is_some_and(|turn| turn.options.can_ask);
        let account = lineage::account(turn.as_ref());
        let mut caller =
            Self { session, can_ask, account, depth, remaining_cost_usd: None, deadline: None };
        if let Some(turn) = turn {
            caller.deadline = caller.turn_deadline(&turn)?;
            caller.remaining_cost_usd = caller.remaining_cost(store, &turn).await?;
        }
        Ok(caller)
    }

    /// Returns the deadline of the calling turn, including all its automatic resumes.
    fn turn_deadline(&self, turn: &TurnRecord) -> Result<Option<Instant>, ToolCallError> {
        let budgets = &self.session.spec.budgets;
        let Some(time) = budgets.time else {
            return Ok(None);
        };
        let all = time.saturating_mul(budgets.resumes.saturating_add(1));
        let used = Timestamp::now().duration_since(turn.created_at);
        let used = used.try_into().unwrap_or_default();
        match all.checked_sub(used) {
            Some(left) => Ok(Instant::now().checked_add(left)),
            None => Err(ToolCallError::new("the time of the calling turn is used up")),
        }
    }

    /// Returns how much the calling turn may still cost: its limit minus its own cost and the cost
    /// of the turns that it has delegated.
    async fn remaining_cost(
        &self,
        store: &dyn Store,
        turn: &TurnRecord,
    ) -> Result<Option<f64>, ToolCallError> {
        let limits = [self.session.spec.budgets.cost_usd, turn.options.max_cost_usd];
        let Some(limit) = limits.into_iter().flatten().reduce(f64::min) else {
            return Ok(None);
        };
        let own = turn_usage(store, turn.id).await?.cost_usd.unwrap_or(0.0);
        let name: Arc<str> = lineage::caller_name(self.session.id);
        let handed_on = store.cost_since(&name, turn.created_at).await?;
        let left = limit - own - handed_on;
        if left <= 0.0 {
            let what = "the cost limit of the calling turn (max_cost_usd) is used up";
            return Err(ToolCallError::new(what));
        }
        Ok(Some(left))
    }
}

/// Returns the usage of a turn so far, which is that of its last usage event.
async fn turn_usage(store: &dyn Store, turn: TurnId) -> Result<Usage, ToolCallError> {
    let mut used = Usage::default();
    let mut after = 0;
    loop {
        let events = store.replay(turn, after, EVENTS_PER_PAGE).await?;
        let Some(last) = events.last() else {
            return Ok(used);
        };
        after = last.seq;
        for event in events {
            if let EventKind::Usage(usage) = event.kind {
                used = usage;
            }
        }
    }
}

#[cfg(test)]
#[path = "caller_tests.rs"]
mod tests;
