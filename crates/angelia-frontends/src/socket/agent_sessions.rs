//! Finds the session of an agent by the mark of its processes.

use angelia_core::model::SessionId;

/// Finds the sessions of agents. The crate that starts the agents implements this.
pub trait AgentSessions: Send + Sync + 'static {
    /// Returns the session that the agent with this mark works for now.
    fn session_of(&self, mark: &str) -> Option<SessionId>;
}
