//! A daemon that has started no agents.

use std::sync::Arc;

use angelia_core::{
    model::{Failure, SessionId, SessionSpec},
    ports::BoxFuture,
};
use angelia_frontends::{
    http::{
        AgentAccess, AgentDelegation, AgentProcess, AgentProcesses, DaemonInfo, DelegatedTurnLimits,
    },
    socket::AgentSessions,
};
use jiff::Timestamp;

struct NoAgents;

pub(crate) fn no_agents() -> Arc<AgentAccess> {
    Arc::new(AgentAccess::new(Arc::new(NoAgents), Arc::new(NoAgents)))
}

pub(crate) fn no_processes() -> Arc<dyn AgentProcesses> {
    Arc::new(NoAgents)
}

pub(crate) fn daemon_info() -> DaemonInfo {
    DaemonInfo { started_at: Timestamp::UNIX_EPOCH, address: "127.0.0.1:4376".to_owned() }
}

impl AgentProcesses for NoAgents {
    fn list(&self) -> Vec<AgentProcess> {
        Vec::new()
    }
}

impl AgentSessions for NoAgents {
    fn session_of(&self, _: &str) -> Option<SessionId> {
        None
    }
}

impl AgentDelegation for NoAgents {
    fn is_within(&self, _: SessionId, _: SessionId) -> BoxFuture<'_, Result<bool, Failure>> {
        unreachable!("no agent has a session")
    }

    fn check_delegation<'a>(
        &'a self,
        _: SessionId,
        _: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        unreachable!("no agent has a session")
    }

    fn turn_limits(&self, _: SessionId) -> BoxFuture<'_, Result<DelegatedTurnLimits, Failure>> {
        unreachable!("no agent has a session")
    }
}
