//! Counts how much of its budgets (time, tool calls, cost) a turn has used.

use tokio::time::Instant;

use crate::model::{Budgets, EventKind};

pub(super) struct Meter {
    budgets: Budgets,
    began: Instant,
    tools: u32,
    /// Cost of the finished segments; `segment_cost_usd` has the cost of the running one.
    paid_before: f64,
    paid: f64,
}

impl Meter {
    pub(super) const fn new(budgets: Budgets, now: Instant) -> Self {
        Self { budgets, began: now, tools: 0, paid_before: 0.0, paid: 0.0 }
    }

    /// Starts another segment: time and tool calls are counted anew, the cost accumulates.
    pub(super) fn restart(&mut self, now: Instant) {
        self.began = now;
        self.tools = 0;
        self.paid_before += std::mem::take(&mut self.paid);
    }

    /// Counts an event and returns the setting whose budget it exhausts.
    pub(super) fn event(&mut self, kind: &EventKind) -> Option<&'static str> {
        match kind {
            EventKind::ToolCall(_) => {
                self.tools += 1;
                let limit = self.budgets.tools?;
                // The call over the limit is stopped right after it has started.
                (self.tools > limit).then_some("budget_tool_count")
            }
            EventKind::Usage(usage) => {
                self.paid = usage.cost_usd.unwrap_or(self.paid);
                self.is_costly().then_some("max_cost_usd")
            }
            _ => None,
        }
    }

    /// Whether the whole turn has used up its cost budget; such a turn is not resumed.
    pub(super) fn is_costly(&self) -> bool {
        self.budgets.cost_usd.is_some_and(|limit| self.paid_before + self.paid >= limit)
    }

    /// Time at which the segment's time budget ends.
    pub(super) fn time_is_up_at(&self) -> Option<Instant> {
        self.budgets.time.map(|time| self.began + time)
    }

    pub(super) const fn resumes(&self) -> u32 {
        self.budgets.resumes
    }
}
