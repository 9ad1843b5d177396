//! The loop with a model in its own process, on paused time: a wait costs nothing, and its length is known
//! exactly.

use std::time::Duration;

use angelia_core::model::SessionSpec;
use angelia_executors::{
    native::{self, provider::Api, providers::Provider},
    scripted_model::{InProcessModel, Reply},
};
use angelia_testkit::{
    direct_session::{DirectSession, TurnOutput},
    scripted_provider,
};

use crate::{
    isolated_executor::IsolatedExecutor,
    loop_lab::{RequestBody, spec_in},
};

/// How long the model may be silent in these tests; the loop's own clock rings a tenth earlier.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);
pub(crate) const RINGS_AFTER: Duration = Duration::from_secs(18);

pub(crate) struct PausedLab {
    pub(crate) api: Api,
    pub(crate) model: InProcessModel,
    pub(crate) place: IsolatedExecutor,
}

/// Runs a test in each API, one after the other: they share the clock.
pub(crate) async fn in_each_api_paused(test: impl AsyncFn(PausedLab)) {
    in_each_api_paused_with(|_| {}, test).await;
}

/// Like [`in_each_api_paused`], with a provider that `change` has modified.
pub(crate) async fn in_each_api_paused_with(
    change: impl Fn(&mut Provider),
    test: impl AsyncFn(PausedLab),
) {
    for api in Api::ALL {
        test(PausedLab::new(api, &change)).await;
    }
}

impl PausedLab {
    fn new(api: Api, change: impl Fn(&mut Provider)) -> Self {
        let model = InProcessModel::default();
        let mut place = IsolatedExecutor::with(&native::REGISTRATION, |_, host| {
            let mut provider = scripted_provider::provider_at("http://127.0.0.1:9", api);
            change(&mut provider);
            host.providers = scripted_provider::catalog(provider);
        });
        let transport = std::sync::Arc::new(model.clone());
        place.executor = native::executor_over(place.host.clone(), transport);
        Self { api, model, place }
    }

    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = spec_in(&self.place);
        (spec.timeouts.first_event, spec.timeouts.silence) = (SILENCE, SILENCE);
        spec
    }

    pub(crate) async fn open(&self) -> DirectSession {
        self.open_with(&self.spec()).await
    }

    pub(crate) async fn open_with(&self, spec: &SessionSpec) -> DirectSession {
        DirectSession::open(&*self.place.executor, spec, None).await.unwrap()
    }

    /// Runs one turn in which the model gives these answers, and asserts that it was asked exactly
    /// that often.
    pub(crate) async fn turn(&self, replies: impl IntoIterator<Item = Reply>) -> TurnOutput {
        let replies: Vec<Reply> = replies.into_iter().collect();
        let (asked, count) = (self.model.model_requests().len(), replies.len());
        self.model.script(replies);
        let mut session = self.open().await;
        let output = session.prompt("go on").await;
        session.close().await;
        assert_eq!(self.model.model_requests().len() - asked, count, "{:?}: {output:#?}", self.api);
        output
    }

    /// Returns the pauses between the last requests.
    pub(crate) fn pauses<const N: usize>(&self) -> [Duration; N] {
        let requests = self.model.model_requests();
        let pauses = requests.windows(2).map(|pair| pair[1].at - pair[0].at);
        let pauses: Vec<Duration> = pauses.collect();
        pauses[pauses.len() - N..].try_into().unwrap()
    }

    /// Returns the bodies of the requests.
    pub(crate) fn requests(&self) -> Vec<RequestBody> {
        let requests = self.model.model_requests();
        requests.iter().map(|request| RequestBody { api: self.api, body: request.json() }).collect()
    }

    pub(crate) fn last_request(&self) -> RequestBody {
        self.requests().pop().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.place.isolated.work_dir().join(name), text).unwrap();
    }
}
