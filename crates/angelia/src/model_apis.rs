//! Converts the configuration to the settings of the model APIs: keys, aliases, and which model ids
//! mean which agent.

use std::sync::Arc;

use angelia_frontends::http::{
    Allowed, Grant, Key,
    dialect::{Family, ModelSettings},
};

use crate::config::{ApiKey, Config, KeyProfiles};

pub(crate) fn settings(config: &Config) -> ModelSettings {
    let http = config.http();
    let aliases = http.model_aliases.iter();
    ModelSettings {
        agent_mode: http.agent_mode,
        keys: keys(config).into(),
        aliases: aliases.map(|(id, meant)| (Arc::clone(&id.0), meant.as_str().into())).collect(),
        utility_profile: http.utility_profile.as_deref().map(Into::into),
        disconnect_grace: http.disconnect_grace.duration(),
        idempotency_window: http.idempotency_window.duration(),
        families: families(),
    }
}

pub(crate) fn keys(config: &Config) -> Vec<Key> {
    config.http().keys.iter().map(key).collect()
}

fn key(ApiKey(key): &ApiKey) -> Key {
    Key {
        name: key.name.as_str().into(),
        sha256: key.sha256.0,
        grant: Grant {
            profiles: match &key.profiles {
                KeyProfiles::All => Allowed::All,
                KeyProfiles::Only(names) => Allowed::Only(names.clone()),
            },
            agent_mode: key.agent_mode,
            max_cost_usd_per_day: key.max_cost_usd_per_day.map(|limit| limit.0),
        },
    }
}

fn families() -> Vec<Family> {
    let words = |words: &[&str]| words.iter().map(|word| Arc::from(*word)).collect();
    let kinds = angelia_executors::ALL.iter();
    kinds
        .map(|kind| Family {
            executor: kind.name.into(),
            bare: words(kind.model_ids.bare),
            agent_words: words(kind.model_ids.agent_words),
            models: words(kind.model_ids.listed),
        })
        .collect()
}
