//! How much is going on in this process, for those who watch it: numbers only, read at a glance.

use super::{facade::Engine, log::LogCounts};

/// What there is right now, and how turns have ended since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Sessions that are at work here, or have just been.
    pub sessions: usize,
    pub turns: TurnCounts,
    pub agents: AgentCounts,
    /// Questions that wait for somebody.
    pub approvals: usize,
    /// Tasks of the engine.
    pub tasks: usize,
    /// How many turns have ended, by the word of their status.
    pub finished: Vec<(&'static str, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    pub queued: usize,
    /// Those that wait for the caller's tools too.
    pub running: usize,
    pub awaiting_tool_result: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    pub live: usize,
    /// Of the live ones.
    pub idle: usize,
    /// Turns that wait until an agent may be started.
    pub wanted: usize,
}

impl Engine {
    pub fn gauges(&self) -> Gauges {
        let shared = &self.shared;
        let LogCounts { turns, finished } = shared.count_logs();
        Gauges {
            sessions: shared.count_actors(),
            turns,
            agents: shared.live.count(shared.limits.max_live),
            approvals: shared.pending().len(),
            tasks: shared.tasks.count(),
            finished,
        }
    }
}
