//! The `usage_update` notification: how full the agent's context is, and the cost of the session if
//! it is known. Pure.

use agent_client_protocol_schema::v1::{Cost, SessionUpdate, UsageUpdate};
use angelia_core::model::Usage;

/// The cost of a session's turns so far. The protocol wants the whole sum or nothing, so one turn
/// of unknown cost makes the sum unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionCost(Option<f64>);

impl SessionCost {
    pub const ZERO: Self = Self(Some(0.0));
    pub const UNKNOWN: Self = Self(None);

    #[must_use]
    pub fn add_turn(self, turn: &Usage) -> Self {
        let sum = self.0.zip(turn.cost_usd);
        let sum = sum.map(|(before, more)| before + more);
        // JSON has no infinity and no NaN.
        Self(sum.filter(|sum| sum.is_finite()))
    }
}

/// Builds the update. `before` is the session's cost before this turn. Returns `None` if the agent
/// has not reported how full its context is.
pub(super) fn build_update(usage: &Usage, before: SessionCost) -> Option<SessionUpdate> {
    let context = usage.context?;
    let SessionCost(cost) = before.add_turn(usage);
    let cost = cost.map(|dollars| Cost::new(dollars, "USD"));
    let update = UsageUpdate::new(context.used, context.size).cost(cost);
    Some(SessionUpdate::UsageUpdate(update))
}
