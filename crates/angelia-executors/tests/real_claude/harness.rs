//! One real Claude Code in an isolated home, with the scripted model and an executor.

use std::{collections::BTreeSet, sync::Arc};

use angelia_core::{
    model::{Failure, NativeSessionId, SessionSpec},
    ports::{ConversationError, Executor},
};
use angelia_executors::{ExecutorHost, claude};
pub(crate) use angelia_testkit::direct_session::DirectSession;
pub(crate) use angelia_testkit::model_server::directive::tool_call_directive as call;
use angelia_testkit::{
    isolated_home::IsolatedHome, model_server::ModelServer, process_table, real::RealClaude,
};
use serde_json::Value;

use crate::isolated_executor::{IsolatedExecutor, helper_without_landlock};

/// The test setup: an isolated home, a scripted model and an executor.
pub(crate) struct ClaudeHarness {
    pub(crate) claude: RealClaude,
    pub(crate) server: ModelServer,
    pub(crate) place: IsolatedHome,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) host: ExecutorHost,
    mark: String,
}

impl ClaudeHarness {
    pub(crate) fn new(claude: &RealClaude) -> Self {
        Self::build(claude, |_, _| {})
    }

    pub(crate) fn keeping_warm(claude: &RealClaude) -> Self {
        Self::build(claude, |_, host| host.keep_warm = true)
    }

    /// Starts agents of model mode with or without Landlock.
    pub(crate) fn with_landlock(claude: &RealClaude, confined: bool) -> Self {
        Self::build(claude, |place, host| {
            if !confined {
                host.current_exe = helper_without_landlock(place);
            }
        })
    }

    fn build(claude: &RealClaude, change: impl FnOnce(&IsolatedHome, &mut ExecutorHost)) -> Self {
        let place = IsolatedExecutor::with(&claude::REGISTRATION, change);
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

    pub(crate) async fn open(&self, spec: &SessionSpec) -> DirectSession {
        self.try_open(spec, None).await.unwrap()
    }

    pub(crate) async fn resume(
        &self,
        spec: &SessionSpec,
        native: &NativeSessionId,
    ) -> DirectSession {
        self.try_open(spec, Some(native)).await.unwrap()
    }

    pub(crate) async fn try_open(
        &self,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
    ) -> Result<DirectSession, Failure> {
        DirectSession::open(&*self.executor, spec, native).await
    }

    /// Returns why a conversation could not be resumed.
    pub(crate) async fn open_error(
        &self,
        spec: &SessionSpec,
        native: &NativeSessionId,
    ) -> ConversationError {
        DirectSession::open_error(&*self.executor, spec, native).await
    }

    /// Returns the processes that carry this setup's mark.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        process_table::find_marked(&self.mark)
    }

    pub(crate) fn last_request(&self) -> Value {
        self.server.model_requests().last().unwrap().json()
    }
}

pub(crate) fn bash(command: &str) -> String {
    call("Bash", &serde_json::json!({"command": command, "description": "a test's command"}))
}

/// Runs a test on both versions.
pub(crate) async fn on_both<F: Future<Output = ()>>(test: impl Fn(ClaudeHarness) -> F) {
    for claude in RealClaude::all().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        test(ClaudeHarness::new(&claude)).await;
    }
}
