//! The processes of agents in the system's process table.

use angelia_core::model::SessionId;

/// Lists the processes that this daemon has started for agents.
pub trait AgentProcesses: Send + Sync + 'static {
    /// Reads the process table, which takes a few milliseconds.
    fn list(&self) -> Vec<AgentProcess>;
}

/// A process of an agent, with everything it has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProcess {
    /// The session it works for, if it works for one alone.
    pub session: Option<SessionId>,
    pub pid: u32,
    pub program: String,
    pub processes: usize,
    pub rss_bytes: u64,
}
