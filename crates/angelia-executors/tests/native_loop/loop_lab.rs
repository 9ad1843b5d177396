//! The loop in an isolated home with one scripted provider, and its requests in one form for all APIs.

use std::fs;

use angelia_core::model::{PermissionLevel, SandboxMode, SessionSpec};
use angelia_executors::{
    native::{self, provider::Api, providers::Provider},
    scripted_model::{ModelServer, Reply, ReplyBlock},
};
use angelia_testkit::{
    direct_session::{DirectSession, TurnOutput},
    scripted_provider,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::isolated_executor::IsolatedExecutor;

/// A command of the scripted model: each run adds a line to this file.
const RUNS: &str = "runs";

pub(crate) struct LoopLab {
    pub(crate) api: Api,
    pub(crate) server: ModelServer,
    pub(crate) place: IsolatedExecutor,
}

/// Runs a test in each API, at the same time.
pub(crate) async fn in_each_api(test: impl AsyncFn(LoopLab)) {
    in_each_api_with(|_| {}, test).await;
}

/// Like [`in_each_api`], with a provider that `change` has modified.
pub(crate) async fn in_each_api_with(change: impl Fn(&mut Provider), test: impl AsyncFn(LoopLab)) {
    join_all(Api::ALL.map(|api| test(LoopLab::new(api, &change)))).await;
}

impl LoopLab {
    pub(crate) fn new(api: Api, change: impl Fn(&mut Provider)) -> Self {
        let server = ModelServer::start().unwrap();
        let mut provider = scripted_provider::provider(&server, api);
        change(&mut provider);
        let place = IsolatedExecutor::with(&native::REGISTRATION, |_, host| {
            host.providers = scripted_provider::catalog(provider);
        });
        Self { api, server, place }
    }

    pub(crate) fn spec(&self) -> SessionSpec {
        spec_in(&self.place)
    }

    pub(crate) async fn open(&self) -> DirectSession {
        self.open_with(&self.spec()).await
    }

    pub(crate) async fn open_with(&self, spec: &SessionSpec) -> DirectSession {
        DirectSession::open(&*self.place.executor, spec, None).await.unwrap()
    }

    /// Runs one turn of a new session in which the model gives these answers, and asserts that it
    /// was asked exactly that often.
    pub(crate) async fn turn(&self, replies: impl IntoIterator<Item = Reply>) -> TurnOutput {
        self.turn_with(&self.spec(), replies).await
    }

    pub(crate) async fn turn_with(
        &self,
        spec: &SessionSpec,
        replies: impl IntoIterator<Item = Reply>,
    ) -> TurnOutput {
        let replies: Vec<Reply> = replies.into_iter().collect();
        let (asked, count) = (self.server.model_requests().len(), replies.len());
        self.server.script(replies);
        let mut session = self.open_with(spec).await;
        let output = session.prompt("go on").await;
        session.close().await;
        assert_eq!(
            self.server.model_requests().len() - asked,
            count,
            "{:?}: {output:#?}",
            self.api
        );
        output
    }

    /// Returns how often the command of [`run_call`] was run.
    pub(crate) fn runs(&self) -> usize {
        self.read(RUNS).lines().count()
    }

    /// Returns the content of a file in the working directory; empty if it does not exist.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.place.isolated.work_dir().join(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.place.isolated.work_dir().join(name), text).unwrap();
    }

    /// Returns the bodies of the requests.
    pub(crate) fn requests(&self) -> Vec<RequestBody> {
        let requests = self.server.model_requests();
        requests.iter().map(|request| RequestBody { api: self.api, body: request.json() }).collect()
    }

    pub(crate) fn last_request(&self) -> RequestBody {
        self.requests().pop().unwrap()
    }
}

pub(crate) fn spec_in(place: &IsolatedExecutor) -> SessionSpec {
    let mut spec = SessionSpec::new("native", place.isolated.work_dir());
    spec.model = Some(scripted_provider::MODEL.into());
    spec.permissions.level = PermissionLevel::Unattended;
    // What commands do in the sandbox has tests of its own.
    spec.native.sandbox = SandboxMode::Off;
    spec
}

/// The body of a request, in any of the APIs.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub(crate) api: Api,
    pub(crate) body: Value,
}

impl RequestBody {
    fn entries(&self) -> &[Value] {
        let list = if self.api == Api::Responses { "input" } else { "messages" };
        self.body[list].as_array().unwrap()
    }

    /// Returns the results of tools, in the order of the request.
    pub(crate) fn results(&self) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            parts => texts_of(parts).concat(),
        };
        let entries = self.entries().iter();
        match self.api {
            Api::Messages => entries
                .filter_map(|entry| entry["content"].as_array())
                .flatten()
                .filter(|block| block["type"] == "tool_result")
                .map(|block| text(&block["content"]))
                .collect(),
            Api::Chat => entries
                .filter(|entry| entry["role"] == "tool")
                .map(|entry| text(&entry["content"]))
                .collect(),
            Api::Responses => entries
                .filter(|entry| entry["type"] == "function_call_output")
                .map(|entry| text(&entry["output"]))
                .collect(),
        }
    }

    /// Returns the role of the last entry; a tool's results count as the user's.
    pub(crate) fn ends_with_the_user(&self) -> bool {
        let last = self.entries().last().unwrap();
        last["role"] == "user" || last["role"] == "tool" || last["type"] == "function_call_output"
    }

    /// Returns the text of the last entry; after results in the same entry, what follows them.
    pub(crate) fn last_text(&self) -> String {
        let last = self.entries().last().unwrap();
        match &last["content"] {
            Value::String(text) => text.clone(),
            parts => texts_of(parts).concat(),
        }
    }

    /// Reports whether any string of the request contains the text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        angelia_testkit::conformance::executor::json_contains_text(&self.body, text)
    }
}

fn texts_of(parts: &Value) -> Vec<&str> {
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// Returns a call whose every run can be counted by [`LoopLab::runs`].
pub(crate) fn run_call() -> ReplyBlock {
    bash(&format!("echo run >> {RUNS}"))
}

pub(crate) fn bash(command: &str) -> ReplyBlock {
    call("bash", json!({"command": command}))
}

pub(crate) fn call(name: &str, input: Value) -> ReplyBlock {
    ReplyBlock::Tool { name: name.to_owned(), input }
}

pub(crate) fn calls(blocks: impl Into<Vec<ReplyBlock>>) -> Reply {
    Reply::message(blocks.into())
}

/// Returns the fields of the only notice with this code.
#[track_caller]
pub(crate) fn detail_of(output: &TurnOutput, code: &str) -> Value {
    let notices = output.notices();
    let mut found = notices.iter().filter(|notice| &*notice.code == code);
    let (Some(notice), None) = (found.next(), found.next()) else {
        panic!("not one notice {code}: {output:#?}");
    };
    let detail = notice.detail.as_ref().unwrap_or_else(|| panic!("no detail: {notice:?}"));
    serde_json::from_str(detail.get()).unwrap()
}
