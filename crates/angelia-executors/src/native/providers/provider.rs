//! A provider of models.

use std::{collections::BTreeMap, fmt, sync::Arc};

use angelia_core::model::{Failure, TokenPrice};

use super::{
    address::{host_of, is_local},
    key::KeySource,
    key_pool::KeyRotation,
    prices,
};
use crate::{
    list_prices,
    native::provider::{Api, QuirkOverrides, Quirks},
};

/// The lane of a provider without a key: nobody pays.
const LOCAL_LANE: &str = "local";
const KEY_LANE: &str = "api_key";

const THIS_MACHINE: &str = "localhost";

const FREE: TokenPrice = TokenPrice { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 };

/// An address that serves models.
#[derive(Clone, PartialEq)]
pub struct Provider {
    pub name: Arc<str>,
    pub api: Api,
    /// In the form that the vendor's own library accepts, without a trailing slash.
    pub base_url: Arc<str>,
    /// The sources of keys; if empty, requests carry no key.
    pub keys: Vec<KeySource>,
    pub rotate: KeyRotation,
    /// Sent with every request. Their values may be secrets.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
    /// The owner's overrides of the quirks that the host is known for.
    pub quirks: QuirkOverrides,
    /// The owner's settings for models, by id.
    pub models: BTreeMap<Arc<str>, ModelSettings>,
    /// Writes the last request of a failed turn to a file.
    pub dump_failed_requests: bool,
}

/// The owner's settings for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Tokens of the prompt and the answer together.
    pub context: Option<u64>,
    /// Tokens of one answer.
    pub output: Option<u64>,
    /// `None` here and in the next two fields means unknown, so it is tried.
    pub images: Option<bool>,
    pub tools: Option<bool>,
    pub reasoning: Option<bool>,
    pub price: Option<TokenPrice>,
}

impl Provider {
    /// Returns the host of the address.
    pub fn host(&self) -> &str {
        host_of(&self.base_url)
    }

    /// Returns whether the address is on this machine or in a private network.
    pub fn is_local(&self) -> bool {
        is_local(self.host())
    }

    /// Returns how the server deviates from its API for this model.
    pub fn quirks_of(&self, model: &str) -> Quirks {
        // Servers in the local network are the same programs as those on this machine.
        let host = if self.is_local() { THIS_MACHINE } else { self.host() };
        Quirks::for_endpoint(self.api, host, model).with(&self.quirks)
    }

    /// Returns the lane of its turns, which says who pays. This is that of the first key; other
    /// keys may differ.
    pub fn lane(&self) -> &'static str {
        match self.keys.first() {
            Some(source) => source.lane(),
            None if self.is_local() => LOCAL_LANE,
            None => KEY_LANE,
        }
    }

    /// Returns the owner's settings for a model.
    pub fn model(&self, id: &str) -> ModelSettings {
        self.models.get(id).copied().unwrap_or_default()
    }

    /// Returns the price of a model: from `providers`, then from the owner's `prices` (by
    /// `PROVIDER/MODEL`, then by the model's id), then zero for a local server without a key, then
    /// from the vendor's list. `None` if it is unknown.
    pub fn price_of(
        &self,
        model: &str,
        owner_prices: &BTreeMap<Arc<str>, TokenPrice>,
    ) -> Option<TokenPrice> {
        let of_owner = || {
            let whole = owner_prices.get(&*format!("{}/{model}", self.name));
            whole.or_else(|| owner_prices.get(model)).copied()
        };
        let free = || self.is_free().then_some(FREE);
        let listed = || prices::list_price(self.host(), model);
        self.model(model).price.or_else(of_owner).or_else(free).or_else(listed)
    }

    /// Fails if a cost limit cannot be enforced because the model has no price.
    pub fn ensure_priced(
        &self,
        model: &str,
        owner_prices: &BTreeMap<Arc<str>, TokenPrice>,
    ) -> Result<(), Failure> {
        if self.price_of(model, owner_prices).is_some() {
            return Ok(());
        }
        let name = &self.name;
        let id = format!("{name}/{model}");
        let setting = format!(
            "providers: {{{name}: {{models: {{{model:?}: {{price: {{input: …, output: …}}}}}}}}}}"
        );
        Err(list_prices::unknown_price(&id, &setting, prices::AS_OF))
    }

    /// Returns whether this is a local server that needs no key.
    fn is_free(&self) -> bool {
        self.keys.is_empty() && self.is_local()
    }
}

/// Omits the values of the headers because they may be secrets.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("api", &self.api)
            .field("base_url", &self.base_url)
            .field("keys", &self.keys)
            .field("rotate", &self.rotate)
            .field("headers", &self.headers.keys())
            .field("quirks", &self.quirks)
            .field("models", &self.models)
            .field("dump_failed_requests", &self.dump_failed_requests)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::FailureKind;

    use super::*;
    use crate::native::provider::quirks::ReasoningEcho;

    fn provider(base_url: &str, keys: Vec<KeySource>) -> Provider {
        Provider {
            name: "home".into(),
            api: Api::Chat,
            base_url: base_url.into(),
            keys,
            rotate: KeyRotation::default(),
            headers: BTreeMap::from([("x-team".into(), "a-secret-of-the-team".into())]),
            quirks: QuirkOverrides::default(),
            models: BTreeMap::new(),
            dump_failed_requests: false,
        }
    }

    fn price(input: f64) -> TokenPrice {
        TokenPrice { input, ..FREE }
    }

    #[test]
    fn quirks_come_from_the_host_and_the_owner() {
        let mut provider = provider("https://openrouter.ai/api/v1", Vec::new());
        assert_eq!(provider.quirks_of("m").reasoning_echo, ReasoningEcho::ReasoningDetails);
        provider.quirks.reasoning_echo = Some(ReasoningEcho::None);
        assert_eq!(provider.quirks_of("m").reasoning_echo, ReasoningEcho::None);
        assert!(!format!("{provider:?}").contains("a-secret"));
    }

    #[test]
    fn only_a_server_at_home_without_a_key_is_free() {
        let key = || vec![KeySource::Env("KEY".into())];
        let none = BTreeMap::new();
        for (base_url, keys, lane) in [
            ("http://127.0.0.1:8080/v1", Vec::new(), "local"),
            ("http://127.0.0.1:8080/v1", key(), "api_key"),
            ("https://models.example.com/v1", Vec::new(), "api_key"),
        ] {
            let provider = provider(base_url, keys);
            assert_eq!(provider.lane(), lane, "{base_url}");
            let expected = (lane == "local").then_some(FREE);
            assert_eq!(provider.price_of("m", &none), expected, "{base_url}");
        }
    }

    #[test]
    fn the_nearest_price_counts() {
        let key = vec![KeySource::Env("KEY".into())];
        let mut provider = provider("https://models.example.com/v1", key);
        let mut owner = BTreeMap::new();
        assert_eq!(provider.price_of("big/m", &owner), None);
        owner.insert("big/m".into(), price(3.0));
        assert_eq!(provider.price_of("big/m", &owner), Some(price(3.0)));
        owner.insert("home/big/m".into(), price(2.0));
        assert_eq!(provider.price_of("big/m", &owner), Some(price(2.0)));
        let settings = ModelSettings { price: Some(price(1.0)), ..ModelSettings::default() };
        provider.models.insert("big/m".into(), settings);
        assert_eq!(provider.price_of("big/m", &owner), Some(price(1.0)));
    }

    #[test]
    fn a_limit_without_a_price_is_refused_and_the_setting_is_named() {
        let key = vec![KeySource::Env("KEY".into())];
        let provider = provider("https://models.example.com/v1", key);
        let refused = provider.ensure_priced("big/m", &BTreeMap::new()).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Invalid);
        let text = refused.to_string();
        assert!(text.contains("`home/big/m`") && text.contains("\"big/m\": {price:"), "{text}");
        let owner = BTreeMap::from([("big/m".into(), FREE)]);
        assert!(provider.ensure_priced("big/m", &owner).is_ok());
    }
}
