//! The JSON form of a session's clocks and budgets on disk.

use std::time::Duration;

use angelia_core::model::{Budgets, TurnTimeouts};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClocksBody {
    timeout: Duration,
    first_event: Duration,
    silence: Duration,
    post_tool_quiet: Duration,
    tool: Duration,
    retry: Duration,
    compaction: Duration,
    background: Duration,
    approval: Duration,
    caller_tool: Duration,
}

impl ClocksBody {
    pub(super) const fn of(clocks: &TurnTimeouts) -> Self {
        Self {
            timeout: clocks.timeout,
            first_event: clocks.first_event,
            silence: clocks.silence,
            post_tool_quiet: clocks.post_tool_quiet,
            tool: clocks.tool,
            retry: clocks.retry,
            compaction: clocks.compaction,
            background: clocks.background,
            approval: clocks.approval,
            caller_tool: clocks.caller_tool,
        }
    }

    pub(super) const fn into_clocks(self) -> TurnTimeouts {
        TurnTimeouts {
            timeout: self.timeout,
            first_event: self.first_event,
            silence: self.silence,
            post_tool_quiet: self.post_tool_quiet,
            tool: self.tool,
            retry: self.retry,
            compaction: self.compaction,
            background: self.background,
            approval: self.approval,
            caller_tool: self.caller_tool,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BudgetsBody {
    time: Option<Duration>,
    tools: Option<u32>,
    cost_usd: Option<f64>,
    resumes: u32,
}

impl BudgetsBody {
    pub(super) const fn of(budgets: &Budgets) -> Self {
        Self {
            time: budgets.time,
            tools: budgets.tools,
            cost_usd: budgets.cost_usd,
            resumes: budgets.resumes,
        }
    }

    pub(super) const fn into_budgets(self) -> Budgets {
        Budgets {
            time: self.time,
            tools: self.tools,
            cost_usd: self.cost_usd,
            resumes: self.resumes,
        }
    }
}
