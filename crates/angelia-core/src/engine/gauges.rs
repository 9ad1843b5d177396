//! The engine's current load (sessions, turns, agents), for metrics and `status`. Cheap to read.

use std::sync::Arc;

use super::{facade::Engine, turn_log::LogCounts, turn_statistics::ExecutorTotals};

/// The engine's current load, and the number of turns that have ended since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Sessions with an actor in this process.
    pub sessions: usize,
    pub turns: TurnCounts,
    pub agents: AgentCounts,
    /// Approvals that wait for a decision.
    pub approvals: usize,
    /// Running tasks of the engine.
    pub tasks: usize,
    /// Number of finished turns for each status.
    pub finished: Vec<(&'static str, u64)>,
    /// Totals of the finished turns for each executor.
    pub executors: Vec<(Arc<str>, ExecutorTotals)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    pub queued: usize,
    /// Includes the turns that wait for the caller's tools.
    pub running: usize,
    pub awaiting_tool_result: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    pub live: usize,
    /// Part of `live`.
    pub idle: usize,
    /// Turns that wait for a free agent slot.
    pub waiting_turns: usize,
}

impl Engine {
    pub fn gauges(&self) -> Gauges {
        let shared = &self.shared;
        let LogCounts { turns, finished, executors } = shared.count_logs();
        Gauges {
            sessions: shared.count_actors(),
            turns,
            agents: shared.agent_slots.count(shared.limits.max_live_agents),
            approvals: shared.pending_approvals().len(),
            tasks: shared.tasks.count(),
            finished,
            executors,
        }
    }
}
