//! How full the agent's context is, as `usage_update`; with what the session has cost, where that is
//! known. Pure.

use agent_client_protocol_schema::v1::{Cost, SessionUpdate, UsageUpdate};
use angelia_core::model::Usage;

/// What the turns of a session have cost so far. The protocol wants all of it or nothing: one turn
/// of which nobody knows makes the sum unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent(Option<f64>);

impl Spent {
    pub const NOTHING: Self = Self(Some(0.0));
    pub const UNKNOWN: Self = Self(None);

    #[must_use]
    pub fn and(self, turn: &Usage) -> Self {
        let sum = self.0.zip(turn.cost_usd);
        let sum = sum.map(|(before, more)| before + more);
        // What is no number cannot be said in JSON.
        Self(sum.filter(|sum| sum.is_finite()))
    }
}

/// `before`: what was spent before this turn. `None`: the agent has not told how full it is.
pub(super) fn update(usage: &Usage, before: Spent) -> Option<SessionUpdate> {
    let context = usage.context?;
    let Spent(cost) = before.and(usage);
    let cost = cost.map(|dollars| Cost::new(dollars, "USD"));
    let update = UsageUpdate::new(context.used, context.size).cost(cost);
    Some(SessionUpdate::UsageUpdate(update))
}
