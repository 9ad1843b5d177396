//! The state that the daemon provides to the HTTP frontend.

use std::{fmt, sync::Arc};

use angelia_core::{engine::Engine, model::TurnId, ports::Profiles, task::TaskGroup};
use axum::extract::State;
use sha2::{Digest, Sha256};

use super::{
    AgentAccess, AgentProcesses, BrowserLogins, BusApi, CallerLimits, ChangeFeed, ConfigControl,
    DaemonInfo, RestartRequests,
    dialect::{LiveModels, RecentRequests},
    keys,
    metrics::Metrics,
};
use crate::{
    chat::{ChatHost, DeliveryQueue},
    hooks_in::HooksIn,
};

/// The state as handlers extract it.
pub(super) type SharedState = State<Arc<ApiState>>;

/// The state of the frontend, created once by the daemon and shared by all listeners.
pub struct ApiState {
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub token: OwnerToken,
    /// The browsers that the owner is signed in with.
    pub logins: BrowserLogins,
    /// Streams changes to the clients that follow them.
    pub feed: ChangeFeed,
    /// Decides what agents' own processes may reach.
    pub agents: Arc<AgentAccess>,
    pub agent_processes: Arc<dyn AgentProcesses>,
    pub daemon: DaemonInfo,
    /// The version of this program.
    pub version: Arc<str>,
    /// The hash of the configuration's sources: the file's path, and the variables that set keys. A
    /// command whose own sources differ must not use this daemon.
    pub config_sha256: Arc<str>,
    pub config: Arc<dyn ConfigControl>,
    /// Accepted `Host` names in addition to the loopback ones: `name`, or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Origins that may call us, as browsers write them in `Origin`.
    pub allowed_origins: Vec<String>,
    /// The models available over `/v1`, and the callers that may use them.
    pub models: LiveModels,
    /// Recent requests to the model APIs.
    pub recent_requests: RecentRequests,
    pub metrics: Metrics,
    pub caller_limits: CallerLimits,
    /// Runs work that outlives its request. Stopped together with the listeners.
    pub tasks: TaskGroup,
    /// Requests to restart the daemon.
    pub restarts: RestartRequests,
    /// The bus, if this daemon has one.
    pub bus: Option<BusApi>,
    /// The channels that the results of schedules can go to, or `None` if this daemon runs no
    /// schedules.
    pub delivery_queue: Option<DeliveryQueue>,
    /// The webhooks that start turns.
    pub hooks: Option<HooksIn>,
    /// The chats, if this process serves any.
    pub chats: Option<ChatHost>,
}

impl ApiState {
    /// Interrupts a turn that is no longer wanted. It may already have ended.
    pub(super) async fn interrupt(&self, turn: TurnId) {
        if let Err(error) = self.engine.interrupt(turn, false).await {
            tracing::debug!(%turn, %error, "the turn had already ended");
        }
    }
}

impl fmt::Debug for ApiState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiState")
            .field("engine", &self.engine)
            .field("version", &self.version)
            .field("config_sha256", &self.config_sha256)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("allowed_origins", &self.allowed_origins)
            .finish_non_exhaustive()
    }
}

/// The hash of the owner's token: enough to recognise the token, but nothing that could leak it.
#[derive(Clone)]
pub struct OwnerToken([u8; 32]);

impl OwnerToken {
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares in constant time.
    pub fn matches(&self, offered: &[u8]) -> bool {
        keys::constant_time_eq(&self.0, &Sha256::digest(offered).into())
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken")
    }
}
