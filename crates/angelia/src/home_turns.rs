//! The turns of a home: those of its daemon, if there is a compatible one, else those of an engine
//! in this process.

use std::sync::Arc;

use angelia_frontends::turn_service::{SpecOverrides, TurnService};

use crate::{
    assemble::{App, LocalEngine},
    cli::{error::CommandError, print},
    client::DaemonClient,
};

pub(crate) struct HomeTurns {
    pub(crate) service: Arc<dyn TurnService>,
    /// The engine that was started for this command.
    local: Option<LocalEngine>,
}

impl HomeTurns {
    /// Opens the turns. `overrides` are flags that override the profile; the daemon does not know
    /// them, so they need an engine of this process.
    pub(crate) async fn open(
        app: &Arc<App>,
        command: &'static str,
        keep_warm: bool,
        overrides: SpecOverrides,
    ) -> Result<Self, CommandError> {
        if overrides == SpecOverrides::default()
            && let Some(daemon) = find_daemon(app).await
        {
            return Ok(Self { service: Arc::new(daemon), local: None });
        }
        let local = LocalEngine::start(app, command, keep_warm).await?;
        Ok(Self { service: local.turns(overrides), local: Some(local) })
    }

    /// Opens the turns for the time of some work.
    pub(crate) async fn with<T, F>(
        app: &Arc<App>,
        command: &'static str,
        work: impl FnOnce(Arc<dyn TurnService>) -> F,
    ) -> Result<T, CommandError>
    where
        F: Future<Output = Result<T, CommandError>>,
    {
        let turns = Self::open(app, command, false, SpecOverrides::default()).await?;
        let result = work(Arc::clone(&turns.service)).await;
        turns.close().await;
        result
    }

    /// Stops the engine that was started for this command.
    pub(crate) async fn close(self) {
        if let Some(local) = self.local {
            local.stop().await;
        }
    }
}

/// Returns the daemon of this home, if it has the same version and configuration as this command.
pub(crate) async fn find_daemon(app: &App) -> Option<DaemonClient> {
    let daemon = DaemonClient::connect(&app.home.socket()).await?;
    let hello = daemon.hello().await.ok()?;
    let reason = if &*hello.version != env!("CARGO_PKG_VERSION") {
        "is of another version"
    } else if hello.config_sha256.as_deref() != Some(app.config.sha256().as_str()) {
        "was started with another configuration"
    } else {
        return Some(daemon);
    };
    print::note(&format!("angelia: the running daemon {reason}; working without it"));
    None
}
