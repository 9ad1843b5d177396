//! What is enough: how much of its budgets a segment of a turn has used.

use tokio::time::Instant;

use crate::model::{Budgets, EventKind};

pub(super) struct Meter {
    budgets: Budgets,
    began: Instant,
    tools: u32,
    /// Of the segments that are over, and of the running one.
    paid_before: f64,
    paid: f64,
}

impl Meter {
    pub(super) const fn new(budgets: Budgets, now: Instant) -> Self {
        Self { budgets, began: now, tools: 0, paid_before: 0.0, paid: 0.0 }
    }

    /// Another segment begins with fresh budgets of time and tools; what was paid stays paid.
    pub(super) fn restart(&mut self, now: Instant) {
        self.began = now;
        self.tools = 0;
        self.paid_before += std::mem::take(&mut self.paid);
    }

    /// Notes an event, and says which setting is used up by it.
    pub(super) fn event(&mut self, kind: &EventKind) -> Option<&'static str> {
        match kind {
            EventKind::ToolCall(_) => {
                self.tools += 1;
                let limit = self.budgets.tools?;
                // The tool that is one too many is stopped before it has done anything much.
                (self.tools > limit).then_some("budget_tool_count")
            }
            EventKind::Usage(usage) => {
                self.paid = usage.cost_usd.unwrap_or(self.paid);
                self.is_costly().then_some("max_cost_usd")
            }
            _ => None,
        }
    }

    /// The whole turn has cost what it may: it does not go on by itself.
    pub(super) fn is_costly(&self) -> bool {
        self.budgets.cost_usd.is_some_and(|limit| self.paid_before + self.paid >= limit)
    }

    /// When the segment's time is up.
    pub(super) fn time_is_up_at(&self) -> Option<Instant> {
        self.budgets.time.map(|time| self.began + time)
    }

    pub(super) const fn resumes(&self) -> u32 {
        self.budgets.resumes
    }
}
