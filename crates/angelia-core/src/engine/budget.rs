//! Counts how much of its budgets (time, tool calls, cost) a turn has used.

use tokio::time::Instant;

use crate::model::{Budgets, EventKind};

pub(super) struct BudgetMeter {
    budgets: Budgets,
    started_at: Instant,
    tool_calls: u32,
    /// Cost of the finished segments; `segment_cost_usd` has the cost of the running one.
    earlier_cost_usd: f64,
    segment_cost_usd: f64,
}

impl BudgetMeter {
    pub(super) const fn new(budgets: Budgets, now: Instant) -> Self {
        Self {
            budgets,
            started_at: now,
            tool_calls: 0,
            earlier_cost_usd: 0.0,
            segment_cost_usd: 0.0,
        }
    }

    /// Starts another segment: time and tool calls are counted anew, the cost accumulates.
    pub(super) fn restart(&mut self, now: Instant) {
        self.started_at = now;
        self.tool_calls = 0;
        self.earlier_cost_usd += std::mem::take(&mut self.segment_cost_usd);
    }

    /// Counts an event and returns the setting whose budget it exhausts.
    pub(super) fn on_event(&mut self, kind: &EventKind) -> Option<&'static str> {
        match kind {
            EventKind::ToolCall(_) => {
                self.tool_calls += 1;
                let limit = self.budgets.tools?;
                // The call over the limit is stopped right after it has started.
                (self.tool_calls > limit).then_some("budget_tool_count")
            }
            EventKind::Usage(usage) => {
                self.segment_cost_usd = usage.cost_usd.unwrap_or(self.segment_cost_usd);
                self.is_cost_budget_used_up().then_some("max_cost_usd")
            }
            _ => None,
        }
    }

    /// Whether the whole turn has used up its cost budget; such a turn is not resumed.
    pub(super) fn is_cost_budget_used_up(&self) -> bool {
        self.budgets
            .cost_usd
            .is_some_and(|limit| self.earlier_cost_usd + self.segment_cost_usd >= limit)
    }

    /// Time at which the segment's time budget ends.
    pub(super) fn time_budget_ends_at(&self) -> Option<Instant> {
        self.budgets.time.map(|time| self.started_at + time)
    }

    pub(super) const fn max_resumes(&self) -> u32 {
        self.budgets.resumes
    }
}
