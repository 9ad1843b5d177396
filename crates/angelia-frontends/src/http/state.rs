//! What the HTTP frontend needs from the daemon.

use std::{fmt, sync::Arc};

use angelia_core::{engine::Engine, ports::Profiles};
use sha2::{Digest, Sha256};

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
        let offered: [u8; 32] = Sha256::digest(offered).into();
        let difference = self.0.iter().zip(offered).fold(0, |d, (a, b)| d | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken")
    }
}
