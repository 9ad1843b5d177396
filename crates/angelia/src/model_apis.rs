//! Converts the configuration to the settings of the model APIs: keys, aliases, and the agents
//! named by model ids.

use std::{collections::BTreeSet, sync::Arc};

use angelia_frontends::http::{
    AccessKey, AllowedModels, Grant,
    dialect::{ModelFamily, ModelSettings},
};

use crate::config::{ApiKey, Config, KeyProfiles};

pub(crate) fn model_settings(config: &Config) -> ModelSettings {
    let http = config.http();
    let aliases = http.model_aliases.iter();
    ModelSettings {
        agent_mode: http.agent_mode,
        keys: api_keys(config).into(),
        aliases: aliases.map(|(id, meant)| (Arc::clone(&id.0), meant.as_str().into())).collect(),
        utility_profile: http.utility_profile.as_deref().map(Into::into),
        disconnect_grace: http.disconnect_grace.duration(),
        idempotency_window: http.idempotency_window.duration(),
        families: model_families(config),
    }
}

pub(crate) fn api_keys(config: &Config) -> Vec<AccessKey> {
    config.http().keys.iter().map(to_key).collect()
}

fn to_key(ApiKey(key): &ApiKey) -> AccessKey {
    AccessKey {
        name: key.name.as_str().into(),
        sha256: key.sha256.0,
        grant: Grant {
            profiles: match &key.profiles {
                KeyProfiles::All => AllowedModels::All,
                KeyProfiles::Only(names) => AllowedModels::Only(names.clone()),
            },
            providers: AllowedModels::Only(
                key.providers.iter().map(|name| name.as_str().into()).collect(),
            ),
            agent_mode: key.agent_mode,
            max_cost_usd_per_day: key.max_cost_usd_per_day.map(|limit| limit.0),
        },
    }
}

fn model_families(config: &Config) -> Vec<ModelFamily> {
    let words = |words: &[&str]| words.iter().map(|word| Arc::from(*word)).collect();
    let configured: Vec<Arc<str>> = configured_models(config).into_iter().collect();
    let kinds = angelia_executors::EXECUTORS.iter();
    kinds
        .map(|kind| ModelFamily {
            executor: kind.name.into(),
            bare_prefixes: words(kind.model_ids.vendor_prefixes),
            agent_aliases: words(kind.model_ids.agent_aliases),
            models: if kind.model_ids.by_provider {
                configured.clone()
            } else {
                words(kind.model_ids.listed_models)
            },
            providers: kind.model_ids.by_provider.then(|| config.provider_names()),
        })
        .collect()
}

/// Returns the providers' models that the configuration names, as `PROVIDER/MODEL`.
fn configured_models(config: &Config) -> BTreeSet<Arc<str>> {
    let mut models: BTreeSet<Arc<str>> = config.native_models().map(Into::into).collect();
    for provider in config.providers(None) {
        let ids = provider.models.keys();
        models.extend(ids.map(|id| Arc::from(format!("{}/{id}", provider.name))));
    }
    models
}
