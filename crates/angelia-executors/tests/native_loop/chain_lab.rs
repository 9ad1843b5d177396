//! The loop with three providers in its own process, on paused time. Each speaks another API and has an
//! address of its own, so that a test sees who was asked, with which key, and when.

use std::{sync::Arc, time::Duration};

use angelia_core::model::SessionSpec;
use angelia_executors::{
    native::{
        self,
        provider::Api,
        providers::{KeySource, Provider, ProviderCatalog},
    },
    scripted_model::{InProcessModel, Reply, SharedRequest},
};
use angelia_testkit::{
    direct_session::{DirectSession, TurnOutput},
    scripted_provider,
};
use tokio::time::advance;

use crate::{
    isolated_executor::IsolatedExecutor,
    loop_lab::{RequestBody, spec_in},
    paused_lab::SILENCE,
};

/// The providers, in the order of the chain.
pub(crate) const NAMES: [&str; 3] = [scripted_provider::NAME, "spare", "last"];

/// Variables with the keys that providers can have.
pub(crate) const KEYS: [(&str, &str); 3] = [
    ("KEY_A", "sk-aaaa-1111-aaaa"),
    ("KEY_B", "sk-bbbb-2222-bbbb"),
    ("KEY_C", "sk-cccc-3333-cccc"),
];

pub(crate) struct ChainLab {
    /// Of the first provider.
    pub(crate) api: Api,
    pub(crate) model: InProcessModel,
    pub(crate) place: IsolatedExecutor,
    /// How many providers the session has.
    length: usize,
}

/// Runs a test with each API for the first provider, one after the other: they share the clock.
/// `change` gets the providers.
pub(crate) async fn in_each_api_chained(
    change: impl Fn(&mut [Provider; 3]),
    test: impl AsyncFn(ChainLab),
) {
    for api in Api::ALL {
        test(ChainLab::new(api, &change)).await;
    }
}

/// Returns the places of the first `count` keys.
pub(crate) fn keys(count: usize) -> Vec<KeySource> {
    KEYS[..count].iter().map(|(name, _)| KeySource::Env((*name).into())).collect()
}

impl ChainLab {
    fn new(api: Api, change: impl Fn(&mut [Provider; 3])) -> Self {
        let model = InProcessModel::default();
        let first = Api::ALL.iter().position(|one| *one == api).unwrap();
        let mut providers = [0, 1, 2].map(|place| {
            let address = format!("http://127.0.0.1:9/{}", NAMES[place]);
            let api = Api::ALL[(first + place) % Api::ALL.len()];
            Provider { name: NAMES[place].into(), ..scripted_provider::provider_at(&address, api) }
        });
        change(&mut providers);
        let mut place = IsolatedExecutor::with(&native::REGISTRATION, |_, host| {
            let variables = Arc::make_mut(&mut host.environment);
            variables.extend(KEYS.map(|(name, key)| (name.into(), key.into())));
            host.providers = Arc::new(ProviderCatalog::new(providers, &host.environment));
        });
        place.executor = native::executor_over(place.host.clone(), Arc::new(model.clone()));
        Self { api, model, place, length: NAMES.len() }
    }

    /// Only the first provider is there.
    pub(crate) fn alone(mut self) -> Self {
        self.length = 1;
        self
    }

    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = spec_in(&self.place);
        (spec.timeouts.first_event, spec.timeouts.silence) = (SILENCE, SILENCE);
        let others = NAMES[1..self.length].iter();
        spec.native.fallback = others.map(|name| format!("{name}/m").into()).collect();
        spec
    }

    pub(crate) async fn open(&self) -> DirectSession {
        DirectSession::open(&*self.place.executor, &self.spec(), None).await.unwrap()
    }

    /// Runs one turn of a new session; see [`Self::turn_of`].
    pub(crate) async fn turn<const N: usize>(&self, exchange: [(&str, Reply); N]) -> TurnOutput {
        let mut session = self.open().await;
        let output = self.turn_of(&mut session, exchange).await;
        session.close().await;
        output
    }

    /// Runs one turn in which these providers are asked, in this order, and answer so; asserts that
    /// nobody else is asked.
    pub(crate) async fn turn_of<const N: usize>(
        &self,
        session: &mut DirectSession,
        exchange: [(&str, Reply); N],
    ) -> TurnOutput {
        let before = self.model.model_requests().len();
        let (expected, replies): (Vec<&str>, Vec<Reply>) = exchange.into_iter().unzip();
        self.model.script(replies);
        let output = session.prompt("go on").await;
        let requests = self.model.model_requests();
        let asked: Vec<&str> = requests[before..].iter().map(name_of).collect();
        assert_eq!(asked, expected, "{:?}: {output:#?}", self.api);
        output
    }

    /// Returns the keys of the last requests.
    pub(crate) fn keys_used<const N: usize>(&self) -> [String; N] {
        let requests = self.model.model_requests();
        let keys: Vec<String> = requests[requests.len() - N..].iter().map(key_of).collect();
        keys.try_into().unwrap()
    }

    pub(crate) fn last_request(&self) -> RequestBody {
        let requests = self.model.model_requests();
        let last = requests.last().unwrap();
        let api = Api::ALL.into_iter().find(|api| last.path.ends_with(api.path())).unwrap();
        RequestBody { api, body: last.json() }
    }
}

fn name_of(request: &SharedRequest) -> &str {
    request.path.split('/').nth(1).unwrap()
}

/// Returns the variable of the key that a request carries; empty if it has none.
fn key_of(request: &SharedRequest) -> String {
    let headers = ["authorization", "x-api-key", "api-key"];
    let value = headers.iter().find_map(|name| request.header(name)).unwrap_or_default();
    let key = value.strip_prefix("Bearer ").unwrap_or(value);
    let known = KEYS.iter().find(|(_, known)| *known == key);
    known.map(|(name, _)| (*name).to_owned()).unwrap_or_default()
}

/// Lets time pass.
pub(crate) async fn pass(seconds: u64) {
    advance(Duration::from_secs(seconds)).await;
}

/// An error after which the server is not asked again.
pub(crate) fn down(words: &str) -> Reply {
    Reply::status_with(500, words).with_header("x-should-retry", "false")
}

/// A limit that ends after so many seconds.
pub(crate) fn limited(seconds: u64) -> Reply {
    Reply::status(429).with_header("retry-after", seconds.to_string())
}
