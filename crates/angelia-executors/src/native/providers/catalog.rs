//! All providers by name: the owner's, and the built-in ones that the owner has not redefined.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    sync::{Arc, PoisonError, RwLock},
};

use angelia_core::model::{Failure, FailureKind};

use super::{
    built_in::{BUILT_IN, BuiltInProvider},
    by_model::ByModel,
    health::ProviderHealth,
    key::{KeySource, ProviderKey},
    made_keys::MadeKeys,
    model_window::{KnownWindows, ModelWindow},
    provider::Provider,
};
use crate::native::{image_care::ImageCare, provider::window::ModelLimits};

/// The environment variables of this process.
type Variables = BTreeMap<OsString, OsString>;

/// The providers, and what is remembered about them while this process runs.
#[derive(Debug, Default)]
pub struct ProviderCatalog {
    entries: RwLock<CatalogEntries>,
    made_keys: MadeKeys,
    health: ProviderHealth,
    windows: KnownWindows,
    images: ByModel<ImageCare>,
}

#[derive(Debug)]
struct CatalogEntries(BTreeMap<Arc<str>, CatalogEntry>);

#[derive(Debug)]
struct CatalogEntry {
    provider: Arc<Provider>,
    /// The owner's file defines the provider, or its key is set.
    is_configured: bool,
}

impl CatalogEntries {
    fn new(own: impl IntoIterator<Item = Provider>, variables: &Variables) -> Self {
        let is_set = |source: &KeySource| match source {
            KeySource::Env(name) => {
                variables.get(OsStr::new(&**name)).is_some_and(|value| !value.is_empty())
            }
            KeySource::File(_)
            | KeySource::Command(_)
            | KeySource::Entra(_)
            | KeySource::OAuth(_) => true,
        };
        let built_in = BUILT_IN.iter().filter_map(BuiltInProvider::provider);
        let built_in = built_in.map(|provider| (provider.keys.iter().any(is_set), provider));
        let own = own.into_iter().map(|provider| (true, provider));
        let entry = |(is_configured, provider): (bool, Provider)| {
            let name = Arc::clone(&provider.name);
            (name, CatalogEntry { provider: Arc::new(provider), is_configured })
        };
        Self(built_in.chain(own).map(entry).collect())
    }
}

/// The built-in providers on a machine without keys.
impl Default for CatalogEntries {
    fn default() -> Self {
        Self::new([], &Variables::new())
    }
}

impl ProviderCatalog {
    /// `own` are the complete providers of the owner's file. They replace built-in providers with
    /// the same names.
    pub fn new(own: impl IntoIterator<Item = Provider>, variables: &Variables) -> Self {
        Self {
            entries: RwLock::new(CatalogEntries::new(own, variables)),
            made_keys: MadeKeys::default(),
            health: ProviderHealth::default(),
            windows: KnownWindows::default(),
            images: ByModel::default(),
        }
    }

    /// Switches to the providers of a changed file; running requests are not affected.
    pub fn replace(&self, own: impl IntoIterator<Item = Provider>, variables: &Variables) {
        let entries = CatalogEntries::new(own, variables);
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
    }

    pub fn find(&self, name: &str) -> Option<Arc<Provider>> {
        self.read(|entries| entries.get(name).map(|entry| Arc::clone(&entry.provider)))
    }

    /// Finds the provider of `PROVIDER/MODEL`. The model's id may contain slashes.
    pub fn resolve(&self, id: &str) -> Result<(Arc<Provider>, Arc<str>), Failure> {
        let invalid = |message: String, hint: String| {
            Err(Failure::new(FailureKind::Invalid, message).with_hint(hint))
        };
        let (name, model) = match id.split_once('/') {
            Some((name, model)) if !name.is_empty() && !model.is_empty() => (name, model),
            _ => {
                let message = format!("the model `{id}` names no provider");
                let hint = format!("write PROVIDER/MODEL, with one of: {}", self.names());
                return invalid(message, hint);
            }
        };
        match self.find(name) {
            Some(provider) => Ok((provider, model.into())),
            None if BuiltInProvider::find(name).is_some() => {
                let message = format!("the provider `{name}` has no address");
                invalid(message, format!("set `providers.{name}.base_url` in config.yaml"))
            }
            None => {
                let message = format!("there is no provider `{name}`");
                let names = self.names();
                invalid(message, format!("use one of: {names}; or add it to `providers`"))
            }
        }
    }

    /// Returns all providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Provider>> + use<> {
        self.select(|_| true).into_iter()
    }

    /// Returns the providers of the owner's file, and the built-in ones whose key is set.
    pub fn configured(&self) -> impl Iterator<Item = Arc<Provider>> + use<> {
        self.select(|entry| entry.is_configured).into_iter()
    }

    /// Returns what is known about a model's window without asking its server.
    pub fn window_of(&self, provider: &Provider, model: &str) -> ModelWindow {
        self.windows.window_of(provider, model)
    }

    /// Returns the window of a model. Asks its server first, but only once and for at most two
    /// seconds.
    pub async fn discover_window(
        &self,
        provider: &Provider,
        key: Option<&ProviderKey>,
        model: &str,
    ) -> ModelWindow {
        self.windows.discover(provider, key, model).await;
        self.windows.window_of(provider, model)
    }

    /// Remembers what a provider has said about a model's limits, for example in an error.
    pub fn learn_limits(&self, provider: &Provider, model: &str, limits: ModelLimits) {
        self.windows.learn(provider, model, limits);
    }

    /// Returns what is known about which images a model accepts.
    pub fn image_care(&self, provider: &Provider, model: &str) -> ImageCare {
        self.images.get(provider, model).unwrap_or_default()
    }

    /// Remembers what a provider has revealed about images by refusing one.
    pub fn learn_image_care(
        &self,
        provider: &Provider,
        model: &str,
        learn: impl FnOnce(&mut ImageCare),
    ) {
        self.images.change(provider, model, learn);
    }

    /// Returns what is known about how well models and keys work.
    pub const fn health(&self) -> &ProviderHealth {
        &self.health
    }

    pub(super) const fn made_keys(&self) -> &MadeKeys {
        &self.made_keys
    }

    fn names(&self) -> String {
        let names: Vec<Arc<str>> = self.iter().map(|provider| Arc::clone(&provider.name)).collect();
        names.join(", ")
    }

    fn select(&self, is_wanted: impl Fn(&CatalogEntry) -> bool) -> Vec<Arc<Provider>> {
        self.read(|entries| {
            let wanted = entries.values().filter(|entry| is_wanted(entry));
            wanted.map(|entry| Arc::clone(&entry.provider)).collect()
        })
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<Arc<str>, CatalogEntry>) -> T) -> T {
        look(&self.entries.read().unwrap_or_else(PoisonError::into_inner).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::provider::Api;

    fn own(name: &str, base_url: &str) -> Provider {
        let known = BuiltInProvider::find("vllm").and_then(BuiltInProvider::provider).unwrap();
        Provider { name: name.into(), base_url: base_url.into(), ..known }
    }

    fn names(providers: impl Iterator<Item = Arc<Provider>>) -> Vec<String> {
        providers.map(|provider| provider.name.to_string()).collect()
    }

    #[test]
    fn what_is_configured_is_what_the_file_names_and_what_has_a_key() {
        let variables = Variables::from([
            ("OPENAI_API_KEY".into(), "sk-1".into()),
            ("XAI_API_KEY".into(), "".into()),
        ]);
        let home = "http://127.0.0.1:9/v1";
        let catalog = ProviderCatalog::new([own("home", home), own("ollama", home)], &variables);
        assert_eq!(names(catalog.configured()), ["home", "ollama", "openai"]);
        assert_eq!(&*catalog.find("ollama").unwrap().base_url, home);
        assert_eq!(names(catalog.iter()).len(), 11, "the built-in ones, azure for home");
        catalog.replace([own("other", home)], &variables);
        assert_eq!(names(catalog.configured()), ["openai", "other"]);
        assert!(names(ProviderCatalog::default().configured()).is_empty());
    }

    #[test]
    fn an_id_is_a_provider_and_a_model() {
        let catalog = ProviderCatalog::default();
        let (provider, model) = catalog.resolve("openrouter/qwen/qwen3:free").unwrap();
        assert_eq!(
            (&*provider.name, provider.api, &*model),
            ("openrouter", Api::Chat, "qwen/qwen3:free")
        );
        for (id, said) in [
            ("gpt-5.5", "write PROVIDER/MODEL"),
            ("openai/", "write PROVIDER/MODEL"),
            ("/gpt", "write PROVIDER/MODEL"),
            ("opnai/gpt-5.5", "use one of: anthropic, deepseek, gemini, llamacpp"),
            ("azure/gpt-5.5", "`providers.azure.base_url`"),
        ] {
            let failure = catalog.resolve(id).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Invalid);
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }
}
