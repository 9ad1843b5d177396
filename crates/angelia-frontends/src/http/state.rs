//! What the HTTP frontend needs from the daemon.

use std::{fmt, sync::Arc};

use angelia_core::{engine::Engine, ports::Profiles, task::Tasks};
use sha2::{Digest, Sha256};

use super::{
    BusApi,
    dialect::{ModelSettings, Recent},
    keys,
    metrics::Metrics,
};

/// Made once by the daemon; every listener shares it.
pub struct ApiState {
    pub engine: Engine,
    pub profiles: Arc<dyn Profiles>,
    pub token: OwnerToken,
    /// Of this program.
    pub version: Arc<str>,
    /// Hash of the configuration in force: a command with another one must not use this daemon.
    pub config_sha256: Arc<str>,
    /// Names in `Host` that are ours besides the loopback ones: `name`, or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Pages that may call us, as browsers write them in `Origin`.
    pub allowed_origins: Vec<String>,
    /// What can be had over `/v1`, and by whom.
    pub models: ModelSettings,
    /// What the model APIs remember of requests that have just been made.
    pub recent: Recent,
    pub metrics: Metrics,
    /// For what goes on after its request; ended with the listeners.
    pub tasks: Tasks,
    /// Where this daemon has one.
    pub bus: Option<BusApi>,
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

/// The owner's token, kept as its hash: enough to recognise it, and nothing to leak.
#[derive(Clone)]
pub struct OwnerToken([u8; 32]);

impl OwnerToken {
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Takes the same time whatever is offered.
    pub fn is(&self, offered: &[u8]) -> bool {
        keys::same(&self.0, &Sha256::digest(offered).into())
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken")
    }
}
