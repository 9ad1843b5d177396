//! Lists the live agents of this process, for `status`.

use std::{sync::Arc, time::Duration};

use super::facade::{Engine, EngineLimits};
use crate::model::{Mode, SessionId};

/// A live agent and its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAgentStatus {
    pub session: SessionId,
    pub title: Option<Arc<str>>,
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub model: Option<Arc<str>>,
    pub mode: Mode,
    /// How long the agent has been idle; `None` while it works.
    pub idle: Option<Duration>,
}

impl Engine {
    pub fn limits(&self) -> &EngineLimits {
        &self.shared.limits
    }

    /// Lists the live agents, ordered by session.
    pub fn live_agents(&self) -> Vec<LiveAgentStatus> {
        let mut agents: Vec<_> = (self.shared.agent_slots.list().into_iter())
            .filter_map(|(session, idle)| {
                let record = self.shared.existing_actor(session)?.record();
                let spec = &record.spec;
                Some(LiveAgentStatus {
                    session,
                    title: record.title.clone(),
                    profile: Arc::clone(&spec.profile),
                    executor: Arc::clone(&spec.executor),
                    model: spec.model.clone(),
                    mode: spec.mode,
                    idle,
                })
            })
            .collect();
        agents.sort_by_key(|agent| agent.session.as_uuid());
        agents
    }
}
