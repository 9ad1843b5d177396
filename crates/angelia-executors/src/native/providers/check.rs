//! Checks whether a provider can be used. Each key costs one short request, and no model runs.

use std::{
    fmt::Write as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{ExecutorHealth, InstalledAgent, LoginState},
};

use super::{
    key::{KeySource, ProviderKey, load_key, missing_key},
    model_window::ModelWindow,
    provider::Provider,
    short_request::{Question, ShortAnswer, ask},
};
use crate::{
    ExecutorHost,
    native::provider::{ErrorClass, ErrorReply, ProviderError, window::ModelLimits},
};

/// The result of checking a provider.
#[derive(Clone, Debug)]
pub struct ProviderCheck {
    /// How long the provider took to answer, or why it did not.
    pub reached: Result<Duration, String>,
    /// The state of the best key.
    pub key: KeyState,
    /// The state of each key, in the order of the configuration.
    pub keys: Vec<(KeySource, KeyState)>,
    /// The requested models and their windows.
    pub models: Vec<(Arc<str>, ModelWindow)>,
}

/// The state of a provider's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    NotNeeded,
    Missing(Failure),
    Accepted(ProviderKey),
    /// With the provider's own message.
    Refused(String),
    /// The key is accepted, but has sent too many requests.
    Limited(ProviderKey),
    /// The provider did not say.
    Unknown,
}

impl KeyState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotNeeded => "not_needed",
            Self::Missing(_) => "missing",
            Self::Accepted(_) => "accepted",
            Self::Refused(_) => "refused",
            Self::Limited(_) => "limited",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the key, if the provider recognises it.
    pub const fn key(&self) -> Option<&ProviderKey> {
        match self {
            Self::Accepted(key) | Self::Limited(key) => Some(key),
            Self::NotNeeded | Self::Missing(_) | Self::Refused(_) | Self::Unknown => None,
        }
    }

    /// Returns the rank of a state; a better key has a lower rank.
    const fn rank(&self) -> u8 {
        match self {
            Self::NotNeeded | Self::Accepted(_) => 0,
            Self::Limited(_) => 1,
            Self::Unknown => 2,
            Self::Refused(_) => 3,
            Self::Missing(_) => 4,
        }
    }
}

impl ProviderCheck {
    /// Returns why the provider cannot be used; `None` if it can.
    pub fn problem(&self, provider: &Provider) -> Option<Failure> {
        let name = &provider.name;
        match (&self.reached, &self.key) {
            (_, KeyState::Missing(failure)) => Some(failure.clone()),
            (Err(reason), _) => {
                let message = format!("{name} does not answer at {}: {reason}", provider.base_url);
                let hint = if provider.is_local() {
                    "start the server, or correct `base_url` of the provider in config.yaml"
                } else {
                    "check the network, and `base_url` of the provider in config.yaml"
                };
                Some(Failure::new(FailureKind::Unavailable, message).with_hint(hint))
            }
            (Ok(_), KeyState::Refused(words)) => {
                let message = format!("{name} does not accept the key: {words}");
                let failure = Failure::new(FailureKind::Auth, message);
                Some(failure.with_hint("put another key where `angelia providers list` says"))
            }
            (
                Ok(_),
                KeyState::NotNeeded
                | KeyState::Accepted(_)
                | KeyState::Limited(_)
                | KeyState::Unknown,
            ) => None,
        }
    }
}

/// Asks a provider for its models, with each of its keys. `models` are those whose windows are
/// wanted.
pub async fn check_provider(
    provider: &Provider,
    models: &[Arc<str>],
    host: &ExecutorHost,
) -> ProviderCheck {
    let mut keys = Vec::new();
    let mut missing = Vec::new();
    let mut asked: Option<AskedProvider> = None;
    for source in &provider.keys {
        let state = match source.load(host).await {
            Err(reason) => {
                missing.push(reason.clone());
                KeyState::Missing(missing_key(&[reason]))
            }
            // An address that did not answer is not asked again.
            Ok(_) if asked.as_ref().is_some_and(|asked| asked.answer.is_err()) => KeyState::Unknown,
            Ok(key) => {
                let now = AskedProvider::ask(provider, Some(key)).await;
                let state = now.key_state(host);
                if asked.as_ref().is_none_or(|known| !known.is_success()) {
                    asked = Some(now);
                }
                state
            }
        };
        keys.push((source.clone(), state));
    }
    let asked = match asked {
        Some(asked) => asked,
        None => AskedProvider::ask(provider, None).await,
    };
    let best = keys.iter().map(|(_, state)| state).min_by_key(|state| state.rank());
    let key = match best {
        Some(KeyState::Missing(_)) => KeyState::Missing(missing_key(&missing)),
        Some(best) => best.clone(),
        None => asked.key_state(host),
    };
    let mut windows = Vec::new();
    for model in models {
        windows.push((Arc::clone(model), asked.window_of(provider, model, host).await));
    }
    let reached = asked.answer.map(|_| asked.elapsed);
    ProviderCheck { reached, key, keys, models: windows }
}

/// The result of asking a provider for its models.
struct AskedProvider {
    key: Option<ProviderKey>,
    elapsed: Duration,
    answer: Result<ShortAnswer, String>,
}

impl AskedProvider {
    async fn ask(provider: &Provider, key: Option<ProviderKey>) -> Self {
        let started = Instant::now();
        let answer = ask(provider, key.as_ref(), &Question::Models).await;
        Self { key, elapsed: started.elapsed(), answer }
    }

    fn is_success(&self) -> bool {
        self.answer.as_ref().is_ok_and(ShortAnswer::is_success)
    }

    fn key_state(&self, host: &ExecutorHost) -> KeyState {
        match &self.answer {
            Ok(answer) => key_state(self.key.clone(), answer, host),
            Err(_) => KeyState::Unknown,
        }
    }

    async fn window_of(
        &self,
        provider: &Provider,
        model: &Arc<str>,
        host: &ExecutorHost,
    ) -> ModelWindow {
        let Ok(answer) = &self.answer else { return host.providers.window_of(provider, model) };
        let limits = ModelLimits::read(&answer.body, model);
        if answer.is_success() && limits.context.is_some() {
            host.providers.learn_limits(provider, model, limits);
        }
        host.providers.discover_window(provider, self.key.as_ref(), model).await
    }
}

fn key_state(key: Option<ProviderKey>, answer: &ShortAnswer, host: &ExecutorHost) -> KeyState {
    if answer.is_success() {
        return key.map_or(KeyState::NotNeeded, KeyState::Accepted);
    }
    let ShortAnswer { status, body } = answer;
    let reply = ErrorReply { status: *status, headers: &[], body, now: host.clock.now() };
    let error = ProviderError::from_reply(&reply);
    match error.class {
        ErrorClass::Auth | ErrorClass::Forbidden | ErrorClass::Billing => {
            // The provider may repeat a part of the key.
            KeyState::Refused(host.redactor.redact(&error.message).into_owned())
        }
        ErrorClass::RateLimited => key.map_or(KeyState::Unknown, KeyState::Limited),
        _ => KeyState::Unknown,
    }
}

/// Reports whether a session's provider can be used. `deep`: asks the provider, instead of only
/// looking for a key.
pub async fn provider_health(
    spec: &SessionSpec,
    host: &ExecutorHost,
    deep: bool,
) -> ExecutorHealth {
    let Some(model) = spec.model.as_deref() else {
        let hint = "a profile with `executor: native` and `model: PROVIDER/MODEL` uses it; `angelia \
                    providers list` shows the providers";
        let failure = Failure::new(FailureKind::Unavailable, "no profile uses it").with_hint(hint);
        let login = LoginState::Unknown;
        return ExecutorHealth { installation: None, login, problem: Some(failure) };
    };
    let provider = match host.providers.resolve(model) {
        Ok((provider, _)) => provider,
        Err(failure) => {
            let login = LoginState::Unknown;
            return ExecutorHealth { installation: None, login, problem: Some(failure) };
        }
    };
    let mut version = format!("{} ({})", provider.name, provider.api.as_str());
    let (problem, usable) = if deep {
        let check = check_provider(&provider, &[], host).await;
        let is_usable = |(_, state): &&(KeySource, KeyState)| state.key().is_some();
        (check.problem(&provider), check.keys.iter().filter(is_usable).count())
    } else {
        find_keys(&provider, host).await
    };
    if provider.keys.len() > 1 {
        let _infallible = write!(version, ", {usable} of {} keys", provider.keys.len());
    }
    for model in &spec.native.fallback {
        let obstacle = match host.providers.resolve(model) {
            Ok((provider, _)) => load_key(&provider.keys, host).await.err(),
            Err(failure) => Some(failure),
        };
        if let Some(failure) = obstacle {
            let _infallible =
                write!(version, ", without its fallback {model}: {}", failure.message);
        }
    }
    let installation =
        Some(InstalledAgent { path: PathBuf::from(&*provider.base_url), version: version.into() });
    let login = match &problem {
        Some(failure) if failure.kind == FailureKind::Auth => LoginState::LoggedOut,
        _ => LoginState::LoggedIn { lane: Some(provider.lane().into()) },
    };
    ExecutorHealth { installation, login, problem }
}

/// Looks for the keys of a provider without sending one. Returns a failure if there is none, and
/// how many there are.
async fn find_keys(provider: &Provider, host: &ExecutorHost) -> (Option<Failure>, usize) {
    let (mut found, mut missing) = (0, Vec::new());
    for source in &provider.keys {
        match source.load(host).await {
            Ok(_) => found += 1,
            Err(reason) => missing.push(reason),
        }
    }
    let problem = (found == 0 && !missing.is_empty()).then(|| missing_key(&missing));
    (problem, found)
}
