//! Counts how much of its budgets (time, tool calls, cost) a turn has used.

use std::{collections::HashSet, sync::Arc};

use tokio::time::Instant;

use super::spend::SpendReservation;
use crate::model::{Budgets, EventKind, ToolId};

/// The setting that limits the number of tool calls.
pub(super) const TOOL_BUDGET: &str = "budget_tool_count";

/// Returns the lower of two optional limits.
pub(super) fn lower_limit(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

pub(super) struct BudgetMeter {
    budgets: Budgets,
    /// The turn's share of its caller's spending limit.
    spend: Option<Arc<SpendReservation>>,
    started_at: Instant,
    /// The tool calls of this segment that the budget covers.
    tool_calls: HashSet<ToolId>,
    /// Cost of the finished segments; `segment_cost_usd` has the cost of the running one.
    earlier_cost_usd: f64,
    segment_cost_usd: f64,
    /// Cost of the turns that this one has handed on. It counts against this turn's cost budget, but their
    /// own reservations cover it.
    handed_on_cost_usd: f64,
}

impl BudgetMeter {
    pub(super) fn new(
        budgets: Budgets,
        spend: Option<Arc<SpendReservation>>,
        now: Instant,
    ) -> Self {
        Self {
            budgets,
            spend,
            started_at: now,
            tool_calls: HashSet::new(),
            earlier_cost_usd: 0.0,
            segment_cost_usd: 0.0,
            handed_on_cost_usd: 0.0,
        }
    }

    /// Starts another segment: resets the time and the tool calls, but keeps the cost.
    pub(super) fn restart(&mut self, now: Instant) {
        self.started_at = now;
        self.tool_calls.clear();
        self.earlier_cost_usd += std::mem::take(&mut self.segment_cost_usd);
    }

    /// Counts an event. Returns the setting whose budget the event exhausts, if any.
    pub(super) fn on_event(&mut self, kind: &EventKind) -> Option<&'static str> {
        match kind {
            EventKind::ToolCall(call) => (!self.admit_call(&call.id)).then_some(TOOL_BUDGET),
            EventKind::Usage(usage) => {
                self.segment_cost_usd = usage.cost_usd.unwrap_or(self.segment_cost_usd);
                let has_room =
                    self.spend.as_ref().is_none_or(|spend| spend.set_cost(self.cost_usd()));
                if !has_room {
                    return Some("max_cost_usd_per_day");
                }
                self.cost_budget_if_used_up()
            }
            _ => None,
        }
    }

    /// Adds the cost of a turn that this one has handed on. Returns the setting whose budget it exhausts, if
    /// any.
    pub(super) fn on_handed_on_cost(&mut self, usd: f64) -> Option<&'static str> {
        self.handed_on_cost_usd += usd;
        self.cost_budget_if_used_up()
    }

    fn cost_budget_if_used_up(&self) -> Option<&'static str> {
        self.is_over_cost_budget().then_some("max_cost_usd")
    }

    /// Counts a call once, however many events and requests it has. Returns whether the budget covers it.
    pub(super) fn admit_call(&mut self, id: &ToolId) -> bool {
        let Some(limit) = self.budgets.tools else { return true };
        if self.tool_calls.contains(id) {
            return true;
        }
        let is_covered = self.tool_calls.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        if is_covered {
            self.tool_calls.insert(id.clone());
        }
        is_covered
    }

    fn cost_usd(&self) -> f64 {
        self.earlier_cost_usd + self.segment_cost_usd
    }

    fn is_over_cost_budget(&self) -> bool {
        let spent = self.cost_usd() + self.handed_on_cost_usd;
        self.budgets.cost_usd.is_some_and(|limit| spent >= limit)
    }

    /// Returns whether the whole turn has used up its own cost budget or its caller's spending limit. Such a
    /// turn is not resumed.
    pub(super) fn is_cost_budget_used_up(&self) -> bool {
        self.is_over_cost_budget()
            || self.spend.as_ref().is_some_and(|spend| spend.spendable_usd() <= 0.0)
    }

    /// Returns when the segment's time budget ends.
    pub(super) fn time_budget_ends_at(&self) -> Option<Instant> {
        self.budgets.time.map(|time| self.started_at + time)
    }

    pub(super) const fn max_resumes(&self) -> u32 {
        self.budgets.resumes
    }
}
