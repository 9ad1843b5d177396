//! The limits of a turn: clocks that end what hangs, budgets that end what is enough.

use std::time::Duration;

/// How long each state of a turn may last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// One segment in all; stands still while somebody else is awaited.
    pub timeout: Duration,
    pub first_event: Duration,
    pub silence: Duration,
    pub post_tool_quiet: Duration,
    /// While a tool runs, instead of `silence`.
    pub tool: Duration,
    /// While the agent tries to reach its model again.
    pub retry: Duration,
    pub compaction: Duration,
    /// Work that outlives the answer.
    pub background: Duration,
    /// Then an approval counts as declined.
    pub approval: Duration,
    /// Then a process that waits for a caller's tool is released.
    pub caller_tool: Duration,
}

impl Default for Clocks {
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

/// What is enough. Reached: the turn ends as `partial` with what there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Budgets {
    pub time: Option<Duration>,
    pub tools: Option<u32>,
    pub cost_usd: Option<f64>,
    /// How often a turn that reached a budget goes on by itself.
    pub resumes: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { time: None, tools: None, cost_usd: None, resumes: 5 }
    }
}
