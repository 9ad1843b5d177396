//! Whether a provider can be used: one short request, and no model is asked.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{ExecutorHealth, InstalledAgent, LoginState},
};

use super::{
    key::{ProviderKey, load_key},
    model_window::ModelWindow,
    provider::Provider,
    short_request::{Question, ShortAnswer, ask},
};
use crate::{
    ExecutorHost,
    native::provider::{ErrorClass, ErrorReply, ProviderError, window::ModelLimits},
};

/// What was found out about a provider.
#[derive(Clone, Debug)]
pub struct ProviderCheck {
    /// How long it took to answer, or why it did not.
    pub reached: Result<Duration, String>,
    pub key: KeyState,
    /// The models that were asked about.
    pub models: Vec<(Arc<str>, ModelWindow)>,
}

/// What is known about a provider's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    NotNeeded,
    Missing(Failure),
    Accepted(ProviderKey),
    /// With the provider's own words.
    Refused(String),
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
            Self::Unknown => "unknown",
        }
    }
}

impl ProviderCheck {
    /// Returns why the provider cannot be used.
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
            (Ok(_), KeyState::NotNeeded | KeyState::Accepted(_) | KeyState::Unknown) => None,
        }
    }
}

/// Asks a provider which models it has. `models`: those whose windows are wanted.
pub async fn check_provider(
    provider: &Provider,
    models: &[Arc<str>],
    host: &ExecutorHost,
) -> ProviderCheck {
    let key = load_key(&provider.keys, host).await;
    let known = key.as_ref().ok().and_then(Option::as_ref);
    let started = Instant::now();
    let answer = ask(provider, known, &Question::Models).await;
    let reached = answer.as_ref().map(|_| started.elapsed()).map_err(Clone::clone);
    let mut windows = Vec::new();
    for model in models {
        let window = match &answer {
            Ok(answer) => {
                let limits = ModelLimits::read(&answer.body, model);
                if answer.is_success() && limits.context.is_some() {
                    host.providers.learn_limits(provider, model, limits);
                }
                host.providers.discover_window(provider, known, model).await
            }
            Err(_) => host.providers.window_of(provider, model),
        };
        windows.push((Arc::clone(model), window));
    }
    let key = match (key, answer) {
        (Err(failure), _) => KeyState::Missing(failure),
        (Ok(_), Err(_)) => KeyState::Unknown,
        (Ok(key), Ok(answer)) => key_state(key, &answer, host),
    };
    ProviderCheck { reached, key, models: windows }
}

fn key_state(key: Option<ProviderKey>, answer: &ShortAnswer, host: &ExecutorHost) -> KeyState {
    if answer.is_success() {
        return key.map_or(KeyState::NotNeeded, KeyState::Accepted);
    }
    let ShortAnswer { status, body } = answer;
    let reply = ErrorReply { status: *status, headers: &[], body, now: host.clock.now() };
    let error = ProviderError::from_reply(&reply);
    match error.class {
        ErrorClass::Auth | ErrorClass::Forbidden => {
            // A provider may repeat a part of the key.
            KeyState::Refused(host.redactor.redact(&error.message).into_owned())
        }
        _ => KeyState::Unknown,
    }
}

/// Reports whether the provider of a session can be used. `deep`: it is asked, not only whether there
/// is a key.
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
    let installation = Some(InstalledAgent {
        path: PathBuf::from(&*provider.base_url),
        version: format!("{} ({})", provider.name, provider.api.as_str()).into(),
    });
    let problem = if deep {
        check_provider(&provider, &[], host).await.problem(&provider)
    } else {
        load_key(&provider.keys, host).await.err()
    };
    let login = match &problem {
        Some(failure) if failure.kind == FailureKind::Auth => LoginState::LoggedOut,
        _ => LoginState::LoggedIn { lane: Some(provider.lane().into()) },
    };
    ExecutorHealth { installation, login, problem }
}
