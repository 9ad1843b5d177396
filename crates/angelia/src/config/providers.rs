//! The configured providers, and checks of the settings that depend on them: providers are complete, `native`
//! profiles have a provider's model, and keys meant only for `native` are not used elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use angelia_executors::native::{
    provider::QuirkOverrides,
    providers::{
        BuiltInProvider, EntraSettings, KeySource, LoginTarget, ModelSettings, OAuthServer,
        OAuthSettings, Provider, built_in::BUILT_IN,
    },
};

use super::{
    load::{Config, ProfileEntry},
    node::ValueOrigin,
    problem::{Problem, nearest},
    reload::with_key,
    types::{
        EntraFields, ExecutorName, KeySetting, ModelFields, OAuthFields, Profile, ProviderFields,
        ProviderName, expand_home,
    },
};

type ProviderMap = BTreeMap<ProviderName, ProviderFields>;

/// The keys of a profile that only the built-in loop uses.
const NATIVE_KEYS: [&str; 10] = [
    "fallback",
    "max_iterations",
    "max_output_tokens",
    "reasoning",
    "sandbox",
    "sandbox_read",
    "sandbox_write",
    "network",
    "memory",
    "compaction",
];

const ONLY_NATIVE: &str = "is only for `executor: native`; set that, or remove it";
const MODEL_FORM: &str = "write PROVIDER/MODEL, such as ollama/qwen3:8b";
const OWN_ADDRESS: &str = "which differs for every customer";

impl Config {
    /// Returns the configured providers, completed. `home` is the owner's home, for `~/`.
    pub(crate) fn providers(&self, home: Option<&Path>) -> Vec<Provider> {
        let providers = self.effective.providers.iter();
        providers.filter_map(|(name, fields)| complete(name, fields, home)).collect()
    }

    /// Returns the names of all usable providers: the owner's and the built-in ones.
    pub(crate) fn provider_names(&self) -> Vec<Arc<str>> {
        let own = self.effective.providers.keys().map(|name| Arc::clone(&name.0));
        let built_in = BUILT_IN.iter().filter(|known| known.base_url.is_some());
        let names: BTreeSet<Arc<str>> =
            own.chain(built_in.map(|known| known.name.into())).collect();
        names.into_iter().collect()
    }

    /// Returns the models that profiles use on the built-in loop, as `PROVIDER/MODEL`. May contain
    /// duplicates.
    pub(crate) fn native_models(&self) -> impl Iterator<Item = &str> {
        let profiles = self.profiles.values().flat_map(|entry| &entry.candidates);
        let native = profiles.filter(|(executor, _)| *executor == ExecutorName::Native);
        native.flat_map(|(_, profile)| {
            let fallback = profile.fallback.iter().map(|model| &*model.0);
            profile.model.as_deref().into_iter().chain(fallback)
        })
    }

    pub(super) fn check_providers(&self, home: Option<&Path>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (ProviderName(name), fields) in &self.effective.providers {
            let path = format!("providers.{name}");
            let origin = self.origin_of(["providers", name]);
            problems.extend(incomplete(name, fields).map(|what| Problem::new(origin, &path, what)));
            problems.extend(self.check_key_files(name, fields, home));
        }
        problems.extend(self.check_native_profiles());
        problems.extend(self.check_fallback_models());
        problems.extend(self.check_native_keys());
        problems.sort_by_key(Problem::line);
        problems
    }

    fn origin_of<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> &ValueOrigin {
        self.tree.at(path).map_or(&self.tree.origin, |node| &node.origin)
    }

    /// Checks that the files with keys can be found.
    fn check_key_files(
        &self,
        name: &str,
        fields: &ProviderFields,
        home: Option<&Path>,
    ) -> Option<Problem> {
        let keys = fields.keys.iter().flatten();
        let mut sources = keys.map(|key| key_source(name, key, home));
        sources.any(|source| source.is_none()).then(|| {
            let origin = self.origin_of(["providers", name, "keys"]);
            let what = "starts with ~/ and HOME is not set; set it, or write the whole path";
            Problem::new(origin, &format!("providers.{name}.keys"), what)
        })
    }

    /// Checks that each profile that can only use the built-in loop has a model of a known provider.
    fn check_native_profiles(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            let [(ExecutorName::Native, profile)] = entry.candidates.as_slice() else { continue };
            let (key, what) = match profile.model.as_deref() {
                None => ("executor", format!("needs a `model`; {MODEL_FORM}")),
                Some(model) => match self.unknown_provider(model) {
                    Some(what) => ("model", what),
                    None => continue,
                },
            };
            let origin = self.key_origin(name, ExecutorName::Native, key);
            problems.push(Problem::new(origin, &format!("profiles.{name}.{key}"), what));
        }
        problems
    }

    /// Checks that the fallbacks of the built-in loop are models of known providers.
    fn check_fallback_models(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            for (executor, profile) in &entry.candidates {
                if *executor != ExecutorName::Native {
                    continue;
                }
                for (index, model) in profile.fallback.iter().enumerate() {
                    let Some(what) = self.unknown_provider(&model.0) else { continue };
                    let origin = self.key_origin(name, *executor, "fallback");
                    let path = format!("profiles.{name}.fallback[{index}]");
                    problems.push(Problem::new(origin, &path, what));
                }
            }
        }
        problems
    }

    /// Describes the problem with the provider of `PROVIDER/MODEL`.
    fn unknown_provider(&self, model: &str) -> Option<String> {
        let name = match model.split_once('/') {
            Some((name, model)) if !name.is_empty() && !model.is_empty() => name,
            _ => return Some(format!("names no provider; {MODEL_FORM}")),
        };
        if is_known(&self.effective.providers, name) {
            return None;
        }
        if BuiltInProvider::find(name).is_some() {
            return Some(format!("needs `providers.{name}.base_url`, {OWN_ADDRESS}"));
        }
        let own = self.effective.providers.keys().map(|name| &*name.0);
        let own = own.filter(|name| BuiltInProvider::find(name).is_none());
        let names: Vec<&str> = own.chain(BUILT_IN.iter().map(|known| known.name)).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add it to `providers`, or use one of: {}", names.join(", ")),
        };
        Some(format!("names the provider `{name}`, but there is none of this name; {hint}"))
    }

    /// Checks that no profile for another executor sets a key that would be ignored there.
    fn check_native_keys(&self) -> Vec<Problem> {
        let default = Profile::default();
        let mut problems = Vec::new();
        for (name, entry) in &self.profiles {
            let [(executor, profile)] = entry.candidates.as_slice() else { continue };
            if *executor == ExecutorName::Native {
                continue;
            }
            // A value that changes nothing is not a mistake, because `config show` prints every key.
            let is_set = |key: &&str| with_key(&default, profile, key) != default;
            for key in NATIVE_KEYS.into_iter().filter(is_set) {
                let origin = self.key_origin(name, *executor, key);
                problems.push(Problem::new(origin, &format!("profiles.{name}.{key}"), ONLY_NATIVE));
            }
        }
        problems
    }
}

/// Returns whether a provider with this name can be used.
fn is_known(providers: &ProviderMap, name: &str) -> bool {
    let is_complete = BuiltInProvider::find(name).is_some_and(|known| known.base_url.is_some());
    is_complete || providers.contains_key(&ProviderName(name.into()))
}

/// Decides whether a profile with `auto` can also use the built-in loop, and with which model: its own if
/// that has a provider or, if the profile names no model, the only one listed in `providers`.
pub(super) fn settle_automatic_native(providers: &ProviderMap, entry: &mut ProfileEntry) {
    if entry.candidates.len() < 2 {
        return;
    }
    let only_model = || {
        let mut models = providers.iter().flat_map(|(provider, fields)| {
            fields.models.keys().map(move |model| format!("{}/{}", provider.0, model.0))
        });
        models.next().filter(|_| models.next().is_none())
    };
    let has_provider = |model: &String| {
        let (provider, model) = model.split_once('/').unwrap_or_default();
        !model.is_empty() && is_known(providers, provider)
    };
    entry.candidates.retain_mut(|(executor, profile)| {
        if *executor != ExecutorName::Native {
            return true;
        }
        profile.model = profile.model.take().or_else(only_model);
        // A model without a provider belongs to one of the agents.
        profile.model.as_ref().is_some_and(has_provider)
    });
}

/// Returns which settings a provider lacks.
fn incomplete(name: &str, fields: &ProviderFields) -> Option<String> {
    let known = BuiltInProvider::find(name);
    let has_api = fields.api.is_some() || known.is_some();
    let has_address =
        fields.base_url.is_some() || known.is_some_and(|known| known.base_url.is_some());
    let missing: Vec<&str> = [(has_api, "`api`"), (has_address, "`base_url`")]
        .into_iter()
        .filter_map(|(is_there, key)| (!is_there).then_some(key))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let missing = missing.join(" and ");
    if known.is_some() {
        return Some(format!("has no {missing}, {OWN_ADDRESS}"));
    }
    let names: Vec<&str> = BUILT_IN.iter().map(|known| known.name).collect();
    Some(format!("has no {missing}; only the built-in providers need none: {}", names.join(", ")))
}

/// Returns a provider, completed from the built-in provider of its name, or `None` if it is incomplete.
fn complete(name: &ProviderName, fields: &ProviderFields, home: Option<&Path>) -> Option<Provider> {
    let known = BuiltInProvider::find(&name.0);
    let keys = match &fields.keys {
        Some(keys) => {
            keys.iter().map(|key| key_source(&name.0, key, home)).collect::<Option<_>>()?
        }
        None => known.map(BuiltInProvider::keys).unwrap_or_default(),
    };
    let headers = fields.headers.iter();
    let models = fields.models.iter();
    Some(Provider {
        name: Arc::clone(&name.0),
        api: fields.api.map(Into::into).or_else(|| known.map(|known| known.api))?,
        base_url: match &fields.base_url {
            Some(address) => Arc::clone(&address.0),
            None => known?.base_url?.into(),
        },
        keys,
        rotate: fields.rotate.into(),
        headers: headers.map(|(name, value)| (name.0.clone(), value.0.clone())).collect(),
        quirks: QuirkOverrides::from(&fields.quirks),
        models: models.map(|(id, model)| (id.0.clone(), model_settings(model))).collect(),
        dump_failed_requests: fields.dump_failed_requests,
    })
}

/// Returns where a key comes from, or `None` if a path begins with `~/` and there is no home.
fn key_source(provider: &str, key: &KeySetting, home: Option<&Path>) -> Option<KeySource> {
    Some(match key {
        KeySetting::Env(name) => KeySource::Env(Arc::clone(&name.0)),
        KeySetting::File(path) => KeySource::File(expand_home(&path.0, home)?),
        KeySetting::Command(words) => KeySource::Command(words.0.clone()),
        KeySetting::Entra(fields) => KeySource::Entra(entra_settings(fields, home)?),
        KeySetting::OAuth(fields) => KeySource::OAuth(oauth_settings(provider, fields)?),
    })
}

fn entra_settings(fields: &EntraFields, home: Option<&Path>) -> Option<EntraSettings> {
    let default = EntraSettings::default();
    let text = |value: &Option<String>| value.as_deref().map(Arc::from);
    Some(EntraSettings {
        tenant: text(&fields.tenant),
        client_id: text(&fields.client_id),
        secret_env: fields.secret_env.as_ref().map(|name| Arc::clone(&name.0)),
        token_file: match &fields.token_file {
            Some(path) => Some(expand_home(&path.0, home)?),
            None => None,
        },
        scope: text(&fields.scope).unwrap_or(default.scope),
    })
}

fn oauth_settings(provider: &str, fields: &OAuthFields) -> Option<OAuthSettings> {
    let server = match fields.addresses() {
        [Some(issuer), ..] => OAuthServer::Issuer(issuer),
        [None, Some(device_url), Some(token_url)] => {
            OAuthServer::Addresses { device_url, token_url }
        }
        _ => return None,
    };
    Some(OAuthSettings {
        target: LoginTarget::Provider(provider.into()),
        server,
        client_id: fields.client_id.as_deref()?.trim().into(),
        scope: fields.scope.as_deref().map(Arc::from),
    })
}

fn model_settings(model: &ModelFields) -> ModelSettings {
    ModelSettings {
        context: model.context.map(|tokens| tokens.0.into()),
        output: model.output.map(|tokens| tokens.0.into()),
        images: model.images,
        tools: model.tools,
        reasoning: model.reasoning,
        price: model.price.as_ref().map(Into::into),
    }
}
