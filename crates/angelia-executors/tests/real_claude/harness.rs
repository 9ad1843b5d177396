//! One agent program in a place of its own, and turns run on it by hand.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc};

use angelia_core::{
    model::{Failure, NativeSessionId, SessionSpec},
    ports::{Clock, Executor},
    redact::Redactor,
    task::Tasks,
};
use angelia_executors::{
    Host, claude,
    process::{HomeId, OwnerId},
};
pub(crate) use angelia_testkit::by_hand::Session;
use angelia_testkit::{isolated::Isolated, model_server::ModelServer, real::RealClaude};
use serde_json::Value;
use uuid::Uuid;

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// A place, a model and an executor.
pub(crate) struct Lab {
    pub(crate) claude: RealClaude,
    pub(crate) server: ModelServer,
    pub(crate) place: Isolated,
    pub(crate) tasks: Tasks,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) host: Host,
}

impl Lab {
    pub(crate) fn new(claude: &RealClaude) -> Self {
        Self::build(claude, false)
    }

    pub(crate) fn keeping_warm(claude: &RealClaude) -> Self {
        Self::build(claude, true)
    }

    fn build(claude: &RealClaude, keep_warm: bool) -> Self {
        let place = Isolated::new().unwrap();
        let tasks = Tasks::new();
        let mut environment: BTreeMap<OsString, OsString> =
            place.environment().into_iter().collect();
        // What must not reach the child, whatever our own environment holds.
        for name in [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "ANTHROPIC_TOKEN",
            "CLAUDECODE",
            "SECRET_OF_OURS",
        ] {
            environment.insert(name.into(), "must-not-leak".into());
        }
        let host = Host {
            environment: Arc::new(environment),
            user_home: place.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: place.root().join("angelia/work"),
            ledger: place.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: tasks.clone(),
            clock: Arc::new(SystemClock),
            current_exe: "/nonexistent".into(),
            keep_warm,
        };
        let executor = (claude::REGISTRATION.build)(host.clone());
        Self {
            claude: claude.clone(),
            server: ModelServer::start().unwrap(),
            place,
            tasks,
            executor,
            host,
        }
    }

    /// A specification for this place, with a key in its environment.
    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = self.spec_without_login();
        spec.env.insert(
            "ANTHROPIC_API_KEY".into(),
            "sk-ant-dummy-key-of-the-tests".into(),
        );
        spec
    }

    pub(crate) fn spec_without_login(&self) -> SessionSpec {
        let mut spec = SessionSpec::new("claude", self.place.work());
        spec.binary = Some(self.claude.path.clone());
        spec.model = Some("sonnet".into());
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", self.server.base_url().as_str()),
            (
                "XDG_RUNTIME_DIR",
                self.place.root().join("run").to_str().unwrap(),
            ),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ] {
            spec.env.insert(name.into(), value.into());
        }
        spec
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

    /// Processes that carry a mark of this lab's.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = format!("ANGELIA_AGENT=test-home:{}:", self.host.owner_id);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|entry| {
                let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                String::from_utf8_lossy(&environment).contains(&mark)
            })
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    pub(crate) fn last_request(&self) -> Value {
        self.server.model_requests().last().unwrap().json()
    }
}

/// A prompt that makes the model call one tool.
pub(crate) fn call(name: &str, input: &Value) -> String {
    let call = serde_json::json!({"name": name, "input": input});
    format!("TOOL:{call}:END")
}

pub(crate) fn bash(command: &str) -> String {
    call(
        "Bash",
        &serde_json::json!({"command": command, "description": "a test's command"}),
    )
}

/// Runs a test on both versions.
pub(crate) async fn on_both<F: Future<Output = ()>>(test: impl Fn(Lab) -> F) {
    for claude in RealClaude::all().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        test(Lab::new(&claude)).await;
    }
}
