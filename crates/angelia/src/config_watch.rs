//! The daemon's configuration at run time: watches the file for changes, records them in the audit
//! log, and answers `/api/config`.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use angelia_core::{
    model::{AuditAction, AuditActor},
    ports::BoxFuture,
    task::TaskGroup,
};
use angelia_frontends::http::{ConfigControl, ConfigReload, ConfigState, dialect::LiveModels};
use serde_json::{Map, Value};
use tokio::time::{MissedTickBehavior, interval};

use crate::{assemble::LocalEngine, exposure, live_config::LiveConfig, model_apis};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Starts following the configuration file. `models`, the providers and the secrets that the
/// redactor masks follow the effective configuration. New exposures at `address` are reported.
pub(crate) fn spawn_watch(
    config: &Arc<LiveConfig>,
    models: &LiveModels,
    address: SocketAddr,
    local: &LocalEngine,
    tasks: &TaskGroup,
) {
    let (models, redactor) = (models.clone(), local.redactor.clone());
    let providers = Arc::clone(&local.providers);
    let environment = config.source().environment.clone();
    config.follow(move |config| {
        // Values that are no longer configured stay masked, because agents that know them may still
        // be running.
        redactor.add(config.secrets());
        models.replace(model_apis::model_settings(config));
        let own = config.providers(environment.home().as_deref());
        providers.replace(own, environment.variables());
    });
    let (config, engine) = (Arc::clone(config), local.engine.clone());
    tasks.spawn_until_stopped(async move {
        let record = |action, subject: String| {
            let engine = engine.clone();
            async move { engine.record_audit(AuditActor::Terminal, action, subject).await }
        };
        let mut announced = config.current();
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            config.refresh().await;
            for change in config.take_unrecorded() {
                record(AuditAction::Configuration, change).await;
            }
            let current = config.current();
            if !Arc::ptr_eq(&announced, &current) {
                let home = &config.source().home;
                for exposed in exposure::announce_new(home, &current, address) {
                    record(AuditAction::Exposure, exposed).await;
                }
                announced = current;
            }
        }
    });
}

/// The daemon's configuration for `/api`, which shows and reloads it.
pub(crate) struct DaemonConfig(pub(crate) Arc<LiveConfig>);

impl ConfigControl for DaemonConfig {
    fn state(&self) -> ConfigState {
        self.0.state()
    }

    fn settings(&self) -> Map<String, Value> {
        self.0.current().to_json()
    }

    fn origins(&self) -> BTreeMap<String, String> {
        self.0.current().origins()
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.refresh())
    }

    fn reload(&self) -> BoxFuture<'_, Result<ConfigReload, String>> {
        Box::pin(self.0.reload())
    }
}
