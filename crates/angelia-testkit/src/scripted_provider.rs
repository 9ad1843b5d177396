//! The scripted model as a provider for the built-in loop.

use std::{collections::BTreeMap, sync::Arc};

use angelia_executors::{
    native::{
        provider::{Api, QuirkOverrides},
        providers::{KeyRotation, ModelSettings, Provider, ProviderCatalog},
    },
    scripted_model::ModelServer,
};

/// The provider's name.
pub const NAME: &str = "scripted";

/// The model of a session, as `PROVIDER/MODEL`.
pub const MODEL: &str = "scripted/m";

/// Returns the address that a client of this API expects.
pub fn base_url(server: &ModelServer, api: Api) -> String {
    match api {
        Api::Messages => server.base_url(),
        Api::Chat | Api::Responses => server.openai_base_url(),
    }
}

/// Returns a provider without a key, whose only model has a large window.
pub fn provider(server: &ModelServer, api: Api) -> Provider {
    provider_at(&base_url(server, api), api)
}

/// Returns a provider like [`provider`], at any address.
pub fn provider_at(base_url: &str, api: Api) -> Provider {
    let settings = ModelSettings { context: Some(200_000), ..ModelSettings::default() };
    Provider {
        name: NAME.into(),
        api,
        base_url: base_url.into(),
        keys: Vec::new(),
        rotate: KeyRotation::default(),
        headers: BTreeMap::new(),
        quirks: QuirkOverrides::default(),
        models: BTreeMap::from([("m".into(), settings)]),
        dump_failed_requests: false,
    }
}

/// Returns a catalogue with this provider on a machine without any key.
pub fn catalog(provider: Provider) -> Arc<ProviderCatalog> {
    Arc::new(ProviderCatalog::new([provider], &BTreeMap::new()))
}
