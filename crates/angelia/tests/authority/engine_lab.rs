//! A real agent behind an engine, with real paths and the scripted model.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_backends::{edit_diff::FileDiffs, paths::RealPaths};
use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts, NewSession},
    model::{
        Approval, Content, Decision, EventKind, Outcome, PermissionLevel, SessionId, SessionSpec,
        TurnEvent, TurnOptions, TurnOrigin, Verdict,
    },
    task::TaskGroup,
};
use angelia_executors::{claude, codex};
use angelia_testkit::{
    clock::SystemClock,
    codex_home::{self, CodexLogin},
    isolated_home::IsolatedHome,
    memory_store::MemoryStore,
    model_server::{ModelServer, directive::tool_call_directive},
    real::{RealClaude, RealCodex},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::isolated_executor::IsolatedExecutor;

const DEADLINE: Duration = Duration::from_secs(100);

/// An agent with the names of its tools.
#[derive(Clone, Debug)]
pub(crate) enum RealAgent {
    Claude(RealClaude),
    Codex(RealCodex),
}

impl RealAgent {
    pub(crate) fn all() -> Vec<Self> {
        let claude = RealClaude::for_product_tests().unwrap().into_iter().map(Self::Claude);
        claude.chain([Self::Codex(RealCodex::find().unwrap())]).collect()
    }

    /// Returns the call that creates a file.
    pub(crate) fn write(&self, path: &str) -> Value {
        match self {
            Self::Claude(_) => {
                json!({"name": "Write", "input": {"file_path": path, "content": "x"}})
            }
            Self::Codex(_) => json!({"name": "apply_patch",
                "input": format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch")}),
        }
    }

    /// Returns the call that runs a command.
    pub(crate) fn run(&self, command: &str) -> Value {
        match self {
            Self::Claude(_) => {
                json!({"name": "Bash", "input": {"command": command, "description": "d"}})
            }
            Self::Codex(_) => json!({"name": "exec_command", "input": {"cmd": command}}),
        }
    }
}

/// Returns a prompt that makes the model call a tool.
pub(crate) fn prompt(call: &Value) -> String {
    let name = call["name"].as_str().unwrap();
    format!("{} ECHO:done", tool_call_directive(name, &call["input"]))
}

pub(crate) struct EngineLab {
    pub(crate) agent: RealAgent,
    pub(crate) server: ModelServer,
    pub(crate) place: IsolatedHome,
    engine: Engine,
    tasks: TaskGroup,
}

impl EngineLab {
    pub(crate) fn new(agent: &RealAgent) -> Self {
        eprintln!("--- {agent:?}");
        let server = ModelServer::start().unwrap();
        let registration = match agent {
            RealAgent::Claude(_) => &claude::REGISTRATION,
            RealAgent::Codex(_) => &codex::REGISTRATION,
        };
        let isolated = IsolatedExecutor::with(registration, |place, host| {
            let home = place.root().join("codex").into();
            Arc::make_mut(&mut host.environment).insert("CODEX_HOME".into(), home);
        });
        let place = isolated.isolated;
        codex_home::create(place.root().join("codex"), &server.base_url(), CodexLogin::Key, "")
            .unwrap();
        let tasks = TaskGroup::new();
        let engine = Engine::new(EngineParts {
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(SystemClock),
            paths: Arc::new(RealPaths::new(
                &place.home(),
                &place.root().join("angelia"),
                angelia_executors::agent_files(),
            )),
            edits: Arc::new(FileDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![isolated.executor],
            limits: EngineLimits::default(),
            tasks: tasks.clone(),
        });
        Self { agent: agent.clone(), server, place, engine, tasks }
    }

    pub(crate) fn spec(&self, level: PermissionLevel) -> SessionSpec {
        let mut spec = match &self.agent {
            RealAgent::Claude(claude) => claude.spec(&self.place, &self.server.base_url()),
            RealAgent::Codex(codex) => {
                let mut spec = SessionSpec::new("codex", self.place.work_dir());
                spec.binary = Some(codex.path.clone());
                spec.env.insert(codex_home::KEY_VARIABLE.into(), "dummy".into());
                spec
            }
        };
        spec.permissions.level = level;
        spec
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.work_dir().join(name)
    }

    pub(crate) async fn session(&self, spec: SessionSpec) -> SessionId {
        let new = NewSession { spec, title: None, name: None, source: None };
        self.engine.create_session(new).await.unwrap().id
    }

    /// Runs one turn, and denies what a person is asked.
    pub(crate) async fn turn(&self, session: SessionId, can_ask: bool, text: &str) -> FinishedTurn {
        let options = TurnOptions { can_ask, ..TurnOptions::new(TurnOrigin::Owner) };
        let content = vec![Content::text(text)];
        let mut watch = self.engine.submit(session, content, options).await.unwrap().watch;
        let mut events = Vec::new();
        let run = async {
            while let Some(batch) = watch.next().await.unwrap() {
                for event in batch.iter() {
                    if let EventKind::Approval(approval) = &event.kind {
                        let no = Decision::new(Verdict::Deny, "owner");
                        self.engine.decide(approval.id, no).await.unwrap();
                    }
                    events.push(event.clone());
                }
            }
        };
        timeout(DEADLINE, run).await.unwrap();
        FinishedTurn(events)
    }

    pub(crate) async fn close(self) {
        assert!(self.tasks.shutdown(Duration::from_secs(30)).await);
    }
}

pub(crate) struct FinishedTurn(pub(crate) Vec<TurnEvent>);

impl FinishedTurn {
    pub(crate) fn approvals(&self) -> Vec<&Approval> {
        let approvals = self.0.iter().filter_map(|event| match &event.kind {
            EventKind::Approval(approval) => Some(approval),
            _ => None,
        });
        approvals.collect()
    }

    /// Returns the texts of the notices about declined calls.
    pub(crate) fn declined(&self) -> Vec<&str> {
        let notices = self.0.iter().filter_map(|event| match &event.kind {
            EventKind::Notice(notice) if &*notice.code == "declined" => Some(&*notice.text),
            _ => None,
        });
        notices.collect()
    }

    pub(crate) fn outcome(&self) -> &Outcome {
        match &self.0.last().unwrap().kind {
            EventKind::Finished(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }
}
