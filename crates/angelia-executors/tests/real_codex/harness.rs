//! The real Codex in an isolated home, with the scripted model.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_core::{
    model::{EventKind, Failure, NativeSessionId, PermissionLevel, SessionSpec},
    ports::{AgentEvent, Executor},
};
use angelia_executors::{ExecutorHost, codex};
pub(crate) use angelia_testkit::direct_session::wait_until;
use angelia_testkit::{
    codex_home::{self, CodexLogin},
    direct_session::{DEADLINE, DirectSession},
    isolated_home::IsolatedHome,
    model_server::{ModelServer, directive},
    process_table,
    real::RealCodex,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::isolated_executor::{IsolatedExecutor, helper_without_landlock};

pub(crate) struct CodexHarness {
    pub(crate) codex: RealCodex,
    pub(crate) server: ModelServer,
    pub(crate) place: IsolatedHome,
    pub(crate) executor: Arc<dyn Executor>,
    /// `CODEX_HOME`.
    pub(crate) home: PathBuf,
    mark: String,
}

impl CodexHarness {
    pub(crate) fn new() -> Self {
        Self::with_config(CodexLogin::Key, "")
    }

    pub(crate) fn with_warm_pool() -> Self {
        Self::build(CodexLogin::Key, "", |_, host| host.keep_warm = true)
    }

    /// Starts with this login; `more` is added to Codex's own configuration.
    pub(crate) fn with_config(login: CodexLogin, more: &str) -> Self {
        Self::build(login, more, |_, _| {})
    }

    /// Starts agents of model mode with or without Landlock.
    pub(crate) fn with_landlock(confined: bool) -> Self {
        Self::build(CodexLogin::Key, "", |place, host| {
            if !confined {
                host.current_exe = helper_without_landlock(place);
            }
        })
    }

    fn build(
        login: CodexLogin,
        more: &str,
        change: impl FnOnce(&IsolatedHome, &mut ExecutorHost),
    ) -> Self {
        let server = ModelServer::start().unwrap();
        let home_in = |place: &IsolatedHome| place.root().join("codex");
        let place = IsolatedExecutor::with(&codex::REGISTRATION, |isolated, host| {
            change(isolated, host);
            // `CODEX_HOME`, as our own environment names it.
            let home = home_in(isolated).into();
            Arc::make_mut(&mut host.environment).insert("CODEX_HOME".into(), home);
        });
        let home = home_in(&place.isolated);
        let home = codex_home::create(home, &server.base_url(), login, more).unwrap();
        Self {
            codex: RealCodex::find().unwrap(),
            server,
            executor: place.executor,
            place: place.isolated,
            home,
            mark: place.mark,
        }
    }

    /// Returns a specification in which every tool needs approval.
    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = SessionSpec::new("codex", self.place.work_dir());
        spec.binary = Some(self.codex.path.clone());
        spec.env.insert(codex_home::KEY_VARIABLE.into(), "dummy".into());
        spec
    }

    /// Returns a specification without approvals; commands inside the sandbox run.
    pub(crate) fn unattended(&self) -> SessionSpec {
        let mut spec = self.spec();
        spec.permissions.level = PermissionLevel::Unattended;
        spec
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.work_dir().join(name)
    }

    pub(crate) fn config(&self) -> String {
        fs::read_to_string(self.home.join("config.toml")).unwrap()
    }

    pub(crate) fn last_request(&self) -> Value {
        self.server.model_requests().last().unwrap().json()
    }

    /// Returns the tool outputs of the model's last request.
    pub(crate) fn tool_outputs(&self) -> Vec<String> {
        let request = self.last_request();
        let items = request["input"].as_array().unwrap();
        let outputs =
            items.iter().filter(|item| item["type"].as_str().unwrap().ends_with("_output"));
        outputs.map(|item| item["output"].to_string()).collect()
    }

    /// Returns every process that carries this setup's mark.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        process_table::find_marked(&self.mark)
    }

    /// Returns the marked processes that this test has started itself.
    pub(crate) fn servers(&self) -> BTreeSet<i32> {
        process_table::find_agents(&self.mark)
    }

    pub(crate) fn kill_servers(&self) {
        let servers = self.servers();
        assert!(!servers.is_empty(), "no server is running");
        for pid in servers {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        }
    }

    pub(crate) async fn close(&self) {
        self.executor.close().await;
        assert_eq!(self.processes(), BTreeSet::new());
    }
}

/// Waits for a file in code that cannot be async.
pub(crate) fn wait_for(path: &Path) {
    let until = Instant::now() + DEADLINE;
    while !path.exists() {
        assert!(Instant::now() < until, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_delta(one: &AgentEvent) -> bool {
    matches!(one, AgentEvent::Event(EventKind::Delta { .. }))
}

/// Returns a prompt that makes the model call one tool and then answer.
pub(crate) fn call(tool: &str, input: &Value) -> String {
    format!("{} ECHO:done", directive::tool_call_directive(tool, input))
}

pub(crate) fn exec(command: &str) -> String {
    call("exec_command", &json!({"cmd": command}))
}

/// Returns a prompt for a command outside the sandbox.
pub(crate) fn exec_escalated(command: &str) -> String {
    let input = json!({"cmd": command, "sandbox_permissions": "require_escalated",
        "justification": "the test wants it"});
    call("exec_command", &input)
}

pub(crate) fn patch(patch: &str) -> String {
    call("apply_patch", &json!(patch))
}

pub(crate) fn add_file(name: &str, line: &str) -> String {
    patch(&format!("*** Begin Patch\n*** Add File: {name}\n+{line}\n*** End Patch"))
}
