//! The limits of a turn: timeouts for a hanging agent, and budgets for time, tools and cost.

use std::time::Duration;

/// Limits the duration of each state of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnTimeouts {
    /// A whole segment; paused while the turn waits for a person or a caller's tool.
    pub timeout: Duration,
    pub first_event: Duration,
    pub silence: Duration,
    pub post_tool_quiet: Duration,
    /// While a tool runs; replaces `silence`.
    pub tool: Duration,
    /// While the agent retries to reach its model.
    pub retry: Duration,
    pub compaction: Duration,
    /// For work that continues after the answer.
    pub background: Duration,
    /// An approval counts as denied after this time.
    pub approval: Duration,
    /// A process that waits for a caller's tool is released after this time.
    pub caller_tool: Duration,
}

impl Default for TurnTimeouts {
    fn default() -> Self {
        Self {
            timeout: Duration::from_hours(2),
            first_event: Duration::from_mins(1),
            silence: Duration::from_mins(2),
            post_tool_quiet: Duration::from_secs(90),
            tool: Duration::from_mins(30),
            retry: Duration::from_mins(3),
            compaction: Duration::from_mins(10),
            background: Duration::from_mins(15),
            approval: Duration::from_hours(24),
            caller_tool: Duration::from_mins(10),
        }
    }
}

/// The budgets of a turn: time and tool calls per segment, cost in total. When a budget is used up,
/// the turn ends as `partial` with the answer so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Budgets {
    pub time: Option<Duration>,
    pub tools: Option<u32>,
    pub cost_usd: Option<f64>,
    /// Limits the automatic continuations of a turn that used up a budget.
    pub resumes: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { time: None, tools: None, cost_usd: None, resumes: 5 }
    }
}
