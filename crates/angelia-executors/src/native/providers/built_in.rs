//! The providers that are known without configuration. Each has the address and the key variable
//! that the vendor's own library uses; local servers have their default ports and no key.

use std::{collections::BTreeMap, sync::Arc};

use super::{key::KeySource, key_pool::KeyRotation, provider::Provider};
use crate::native::provider::{Api, QuirkOverrides};

/// A built-in provider.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInProvider {
    pub name: &'static str,
    pub api: Api,
    /// `None` if every customer has an address of their own.
    pub base_url: Option<&'static str>,
    /// The variable with the key; `None` if no key is needed.
    pub key_variable: Option<&'static str>,
}

pub const BUILT_IN: &[BuiltInProvider] = &[
    hosted("anthropic", Api::Messages, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    hosted("openai", Api::Responses, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    hosted("openrouter", Api::Chat, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    hosted("deepseek", Api::Chat, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    hosted("xai", Api::Chat, "https://api.x.ai/v1", "XAI_API_KEY"),
    hosted(
        "gemini",
        Api::Chat,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
    ),
    BuiltInProvider {
        name: "azure",
        api: Api::Chat,
        base_url: None,
        key_variable: Some("AZURE_OPENAI_API_KEY"),
    },
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
    local("lmstudio", "http://127.0.0.1:1234/v1"),
];

const fn hosted(
    name: &'static str,
    api: Api,
    base_url: &'static str,
    key_variable: &'static str,
) -> BuiltInProvider {
    BuiltInProvider { name, api, base_url: Some(base_url), key_variable: Some(key_variable) }
}

const fn local(name: &'static str, base_url: &'static str) -> BuiltInProvider {
    BuiltInProvider { name, api: Api::Chat, base_url: Some(base_url), key_variable: None }
}

impl BuiltInProvider {
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|known| known.name == name)
    }

    /// Returns the sources of its key.
    pub fn keys(&self) -> Vec<KeySource> {
        self.key_variable.map(|name| KeySource::Env(name.into())).into_iter().collect()
    }

    /// Returns the provider without any configuration; `None` if it needs some.
    pub fn provider(&self) -> Option<Provider> {
        Some(Provider {
            name: Arc::from(self.name),
            api: self.api,
            base_url: self.base_url?.into(),
            keys: self.keys(),
            rotate: KeyRotation::default(),
            headers: BTreeMap::new(),
            quirks: QuirkOverrides::default(),
            models: BTreeMap::new(),
            dump_failed_requests: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check_address, *};

    #[test]
    fn every_address_can_be_used_and_only_servers_at_home_need_no_key() {
        for known in BUILT_IN {
            let Some(provider) = known.provider() else {
                assert_eq!(known.name, "azure");
                continue;
            };
            assert_eq!(check_address(&provider.base_url), Ok(()), "{}", known.name);
            assert!(!provider.base_url.ends_with('/'), "{}", known.name);
            assert_eq!(provider.is_local(), known.key_variable.is_none(), "{}", known.name);
        }
    }
}
