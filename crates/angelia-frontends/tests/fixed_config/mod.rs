//! A daemon whose configuration never changes.

use std::sync::Arc;

use angelia_core::ports::BoxFuture;
use angelia_frontends::http::{ConfigControl, ConfigReload, ConfigState};
use jiff::Timestamp;
use serde_json::{Map, Value};

struct FixedConfig;

pub(crate) fn fixed_config() -> Arc<dyn ConfigControl> {
    Arc::new(FixedConfig)
}

impl ConfigControl for FixedConfig {
    fn state(&self) -> ConfigState {
        ConfigState {
            path: "/home/owner/.angelia/config.yaml".to_owned(),
            loaded_at: Timestamp::UNIX_EPOCH,
            waiting: vec!["listen".to_owned()],
            error: None,
        }
    }

    fn settings(&self) -> Map<String, Value> {
        Map::from_iter([("drain".to_owned(), "10s".into())])
    }

    fn origins(&self) -> std::collections::BTreeMap<String, String> {
        [("listen".to_owned(), "default".to_owned())].into()
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn reload(&self) -> BoxFuture<'_, Result<ConfigReload, String>> {
        let waiting = self.state().waiting;
        Box::pin(async { Ok(ConfigReload { applied: vec!["drain".to_owned()], waiting }) })
    }
}
