//! Reloads API keys while the daemon runs: `angelia keys` and people change the configuration, and
//! a new or revoked key must not wait for a restart. Nothing else of the file is reloaded.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    engine::Engine,
    model::{AuditAction, AuditActor},
    task::TaskGroup,
};
use angelia_frontends::http::AccessKeys;
use tokio::time::{MissedTickBehavior, interval};

use crate::{assemble::App, config::Config, model_apis};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Polls the configuration file's metadata, and reloads the keys when its content has changed.
pub(crate) fn spawn_reload(app: &Arc<App>, keys: AccessKeys, engine: Engine, tasks: &TaskGroup) {
    let app = Arc::clone(app);
    let path = (app.config_file.clone()).unwrap_or_else(|| app.home.config_file());
    tasks.spawn_until_stopped(async move {
        let mut read = fs::read(&path).ok();
        let mut seen = file_stamp(&path);
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = file_stamp(&path);
            if now == seen {
                continue;
            }
            seen = now;
            let text = fs::read(&path).ok();
            if text != read {
                read = text;
                if reload_keys(&app, &keys) {
                    let subject = format!("{} was changed", path.display());
                    let action = AuditAction::Configuration;
                    engine.record_audit(AuditActor::Terminal, action, subject).await;
                }
            }
        }
    });
}

/// Returns metadata that differs after the file was written or replaced.
fn file_stamp(path: &PathBuf) -> Option<(std::time::SystemTime, u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

/// Returns whether the file could be used.
fn reload_keys(app: &App, keys: &AccessKeys) -> bool {
    let file = app.config_file.as_deref();
    match Config::load(&app.environment, &app.home, file, &[]) {
        Ok(config) => {
            let now = model_apis::api_keys(&config);
            tracing::info!(keys = now.len(), "reloaded the keys");
            keys.replace(now);
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the new configuration is invalid; the keys stay as they are");
            false
        }
    }
}
