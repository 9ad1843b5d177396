//! One Codex in a place of its own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{EventKind, Failure, NativeSessionId, PermissionLevel, SessionSpec},
    ports::{Clock, Emitted, Executor},
    redact::Redactor,
    task::Tasks,
};
use angelia_executors::{
    Host, codex,
    process::{HomeId, OwnerId},
};
use angelia_testkit::{
    by_hand::{DEADLINE, Session},
    codex_home::{self, Login},
    isolated::Isolated,
    model_server::ModelServer,
    real::RealCodex,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
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

pub(crate) struct Lab {
    pub(crate) codex: RealCodex,
    pub(crate) server: ModelServer,
    pub(crate) place: Isolated,
    pub(crate) executor: Arc<dyn Executor>,
    /// The program's own folder.
    pub(crate) home: PathBuf,
    mark: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::configured(Login::Key, "")
    }

    pub(crate) fn keeping_warm() -> Self {
        Self::build(Login::Key, "", true)
    }

    /// `more` is added to the program's own configuration.
    pub(crate) fn configured(login: Login, more: &str) -> Self {
        Self::build(login, more, false)
    }

    fn build(login: Login, more: &str, keep_warm: bool) -> Self {
        let place = Isolated::new().unwrap();
        let server = ModelServer::start().unwrap();
        let home = place.root().join("codex");
        let home = codex_home::make(home, &server.base_url(), login, more).unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            place.environment().into_iter().collect();
        // What must not reach the child, whatever our own environment holds.
        for name in ["OPENAI_API_KEY", "CODEX_API_KEY", "SECRET_OF_OURS"] {
            environment.insert(name.into(), "must-not-leak".into());
        }
        // The program's own folder, as our environment names it.
        environment.insert("CODEX_HOME".into(), home.clone().into());
        let owner = OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap();
        let mark = format!("ANGELIA_AGENT=test-home:{owner}:");
        let host = Host {
            environment: Arc::new(environment),
            user_home: place.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: owner,
            work_dir: place.root().join("angelia/work"),
            ledger: place.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: Tasks::new(),
            clock: Arc::new(SystemClock),
            current_exe: "/nonexistent".into(),
            keep_warm,
        };
        Self {
            codex: RealCodex::find().unwrap(),
            server,
            executor: (codex::REGISTRATION.build)(host),
            place,
            home,
            mark,
        }
    }

    /// Everything asks.
    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = SessionSpec::new("codex", self.place.work());
        spec.binary = Some(self.codex.path.clone());
        spec.env.insert(codex_home::KEY.into(), "dummy".into());
        spec
    }

    /// Nobody is asked; what is in the sandbox runs.
    pub(crate) fn unattended(&self) -> SessionSpec {
        let mut spec = self.spec();
        spec.permissions.level = PermissionLevel::Unattended;
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.work().join(name)
    }

    pub(crate) fn config(&self) -> String {
        fs::read_to_string(self.home.join("config.toml")).unwrap()
    }

    pub(crate) fn last_request(&self) -> Value {
        self.server.model_requests().last().unwrap().json()
    }

    /// What tools have answered, as the model was told.
    pub(crate) fn tool_outputs(&self) -> Vec<String> {
        let request = self.last_request();
        let items = request["input"].as_array().unwrap();
        let outputs = items
            .iter()
            .filter(|item| item["type"].as_str().unwrap().ends_with("_output"));
        outputs.map(|item| item["output"].to_string()).collect()
    }

    /// Every process that carries a mark of this lab's.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let table = fs::read_dir("/proc").unwrap().flatten();
        let pids = table.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&self.mark)
        })
        .collect()
    }

    /// Those of them that we have started.
    pub(crate) fn servers(&self) -> Vec<i32> {
        let ours = std::process::id().to_string();
        let mut pids = self.processes();
        pids.retain(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(')')
                .map(|(_, rest)| rest.split_whitespace().nth(1));
            parent.flatten() == Some(ours.as_str())
        });
        pids
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
        assert_eq!(self.processes(), Vec::<i32>::new());
    }
}

/// Waits for a condition of the outside world.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The same in a place where nothing can be awaited.
pub(crate) fn wait_for(path: &Path) {
    let until = std::time::Instant::now() + DEADLINE;
    while !path.exists() {
        assert!(
            std::time::Instant::now() < until,
            "{} never came",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_delta(one: &Emitted) -> bool {
    matches!(one, Emitted::Event(EventKind::Delta { .. }))
}

/// A prompt that makes the model call one tool, and then say so.
pub(crate) fn call(tool: &str, input: &Value) -> String {
    let call = json!({"name": tool, "input": input});
    format!("TOOL:{call}:END ECHO:done")
}

pub(crate) fn exec(command: &str) -> String {
    call("exec_command", &json!({"cmd": command}))
}

/// Out of the sandbox.
pub(crate) fn escalated(command: &str) -> String {
    let input = json!({"cmd": command, "sandbox_permissions": "require_escalated",
        "justification": "the test wants it"});
    call("exec_command", &input)
}

pub(crate) fn patch(patch: &str) -> String {
    call("apply_patch", &json!(patch))
}

pub(crate) fn add_file(name: &str, line: &str) -> String {
    patch(&format!(
        "*** Begin Patch\n*** Add File: {name}\n+{line}\n*** End Patch"
    ))
}
