//! The agents of this home, for the daemon: their sessions, and the profiles to which these may
//! delegate work.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Failure, FailureKind, SessionId, SessionSpec},
    ports::{BoxFuture, Store},
};
use angelia_executors::process::{
    HomeId, ProcessMark,
    agent_trees::{AgentTree, agent_trees},
    session_binding,
};
use angelia_frontends::{
    http::{AgentDelegation, AgentProcess, AgentProcesses, DelegatedTurnLimits},
    mcp::{ToolCallError, lineage},
    socket::AgentSessions,
};

use super::{DelegatingSession, policy};
use crate::assemble::App;

/// Finds sessions by the marks of this home.
#[derive(Clone, Debug)]
pub(crate) struct HomeAgents {
    home_id: String,
    bindings: PathBuf,
}

impl HomeAgents {
    pub(crate) fn new(app: &App) -> Self {
        Self { home_id: app.home.id(), bindings: app.home.bindings_dir() }
    }
}

impl AgentSessions for HomeAgents {
    fn session_of(&self, mark: &str) -> Option<SessionId> {
        let mark: ProcessMark = mark.parse().ok()?;
        if mark.home.as_str() != self.home_id {
            return None;
        }
        session_binding::read_session(&self.bindings, &mark)
    }
}

impl AgentProcesses for HomeAgents {
    fn list(&self) -> Vec<AgentProcess> {
        let Ok(home) = HomeId::new(&self.home_id) else {
            return Vec::new();
        };
        let process = |tree: AgentTree| AgentProcess {
            session: session_binding::read_session(&self.bindings, &tree.mark),
            pid: tree.pid,
            program: tree.program,
            processes: tree.processes,
            rss_bytes: tree.rss_bytes,
        };
        agent_trees(&home).into_iter().map(process).collect()
    }
}

/// Decides based on the configuration and the record of this home.
pub(crate) struct HomeDelegation {
    app: Arc<App>,
    store: Arc<dyn Store>,
}

impl HomeDelegation {
    pub(crate) fn new(app: &Arc<App>, store: &Arc<dyn Store>) -> Self {
        Self { app: Arc::clone(app), store: Arc::clone(store) }
    }

    async fn load(&self, session: SessionId) -> Result<DelegatingSession, Failure> {
        DelegatingSession::load(&*self.store, session).await.map_err(refusal)
    }
}

impl AgentDelegation for HomeDelegation {
    fn is_within(
        &self,
        session: SessionId,
        top: SessionId,
    ) -> BoxFuture<'_, Result<bool, Failure>> {
        Box::pin(async move {
            let found = lineage::is_same_or_descendant(&*self.store, session, top).await;
            found.map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))
        })
    }

    fn check_delegation<'a>(
        &'a self,
        from: SessionId,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let caller = self.load(from).await?;
            let listed = policy::check_profile(&self.app, &caller, &spec.profile);
            listed.and_then(|()| policy::check_spec(&caller, spec)).map_err(refusal)
        })
    }

    fn turn_limits(&self, from: SessionId) -> BoxFuture<'_, Result<DelegatedTurnLimits, Failure>> {
        Box::pin(async move {
            let caller = self.load(from).await?;
            Ok(DelegatedTurnLimits {
                charged_to: caller.account,
                can_ask: caller.can_ask,
                max_cost_usd: caller.remaining_cost_usd,
            })
        })
    }
}

pub(super) fn refusal(error: ToolCallError) -> Failure {
    let failure = Failure::new(FailureKind::Refused, error.message);
    match error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
