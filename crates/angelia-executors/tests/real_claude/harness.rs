//! One real Claude Code in an isolated home, with the scripted model and an executor.

use std::{collections::BTreeSet, sync::Arc};

use angelia_core::{
    model::{Failure, NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::{Host, claude};
pub(crate) use angelia_testkit::by_hand::Session;
pub(crate) use angelia_testkit::model_server::directive::tool_call as call;
use angelia_testkit::{isolated::Isolated, marked, model_server::ModelServer, real::RealClaude};
use serde_json::Value;

use crate::place::Place;

/// The test setup: an isolated home, a scripted model and an executor.
pub(crate) struct Lab {
    pub(crate) claude: RealClaude,
    pub(crate) server: ModelServer,
    pub(crate) place: Isolated,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) host: Host,
    mark: String,
}

impl Lab {
    pub(crate) fn new(claude: &RealClaude) -> Self {
        Self::build(claude, false)
    }

    pub(crate) fn keeping_warm(claude: &RealClaude) -> Self {
        Self::build(claude, true)
    }

    fn build(claude: &RealClaude, keep_warm: bool) -> Self {
        let place = Place::with(&claude::REGISTRATION, |_, host| host.keep_warm = keep_warm);
        Self {
            claude: claude.clone(),
            server: ModelServer::start().unwrap(),
            place: place.isolated,
            executor: place.executor,
            host: place.host,
            mark: place.mark,
        }
    }

    /// Returns a specification for this home, with an API key in its environment.
    pub(crate) fn spec(&self) -> SessionSpec {
        self.claude.spec(&self.place, &self.server.base_url())
    }

    pub(crate) fn spec_without_login(&self) -> SessionSpec {
        (self.claude).spec_without_login(&self.place, &self.server.base_url())
    }

    pub(crate) async fn open(&self, spec: &SessionSpec) -> Session {
        self.try_open(spec, None).await.unwrap()
    }

    pub(crate) async fn resume(&self, spec: &SessionSpec, native: &NativeSessionId) -> Session {
        self.try_open(spec, Some(native)).await.unwrap()
    }

    pub(crate) async fn try_open(
        &self,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> Result<Session, Failure> {
        Session::open(&*self.executor, spec, native).await
    }

    /// Returns the processes that carry this setup's mark.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        marked::processes(&self.mark)
    }

    pub(crate) fn last_request(&self) -> Value {
        self.server.model_requests().last().unwrap().json()
    }
}

pub(crate) fn bash(command: &str) -> String {
    call("Bash", &serde_json::json!({"command": command, "description": "a test's command"}))
}

/// Runs a test on both versions.
pub(crate) async fn on_both<F: Future<Output = ()>>(test: impl Fn(Lab) -> F) {
    for claude in RealClaude::all().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        test(Lab::new(&claude)).await;
    }
}
