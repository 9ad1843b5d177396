//! The processes of agents in the system's process table.

use angelia_core::model::SessionId;

/// Lists the processes that this daemon started for agents.
pub trait AgentProcesses: Send + Sync + 'static {
    /// Reads the process table, which takes a few milliseconds.
    fn list(&self) -> Vec<AgentProcess>;
}

/// A process of an agent, including all its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProcess {
    /// The session that it works for, unless it serves several.
    pub session: Option<SessionId>,
    pub pid: u32,
    pub program: String,
    pub processes: usize,
    pub rss_bytes: u64,
}
