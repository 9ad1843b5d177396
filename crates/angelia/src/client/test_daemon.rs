//! A daemon for tests of commands: its HTTP frontend on a real socket, with a puppet agent behind
//! it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts},
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Content, Failure, Mode, SessionId,
        SessionSpec, ToolAccess, ToolClass, TurnOrigin,
    },
    ports::{BoxFuture, ProfileRequest, ProfileSummary, Profiles, Store},
    task::TaskGroup,
};
use angelia_frontends::{
    http::{
        AgentAccess, AgentDelegation, AgentProcess, AgentProcesses, ApiState, BrowserLogins,
        CallerLimits, ChangeFeed, ConfigControl, ConfigReload, ConfigState, DaemonInfo,
        DelegatedTurnLimits, Metrics, OwnerToken, TurnBody, TurnInput,
        dialect::{LiveModels, RecentRequests},
        serve_unix,
    },
    socket::AgentSessions,
    turn_service::TurnSubmission,
};
use angelia_testkit::{
    lexical_paths::LexicalPaths,
    manual_executor::{ExecutorControl, ManualExecutor},
    memory_store::MemoryStore,
};
use tokio::net::UnixListener;

use super::DaemonClient;
use crate::{clock::SystemClock, records::Records};

/// Longer than any wait of a working test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct TestDaemon {
    pub(crate) control: ExecutorControl,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: tempfile::TempDir,
    _listeners: TaskGroup,
}

struct OneProfile;

impl Profiles for OneProfile {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        let cwd = wanted.cwd.unwrap_or_else(|| PathBuf::from("/project"));
        let trust = wanted.at_terminal;
        let model = wanted.model;
        Box::pin(async move { Ok(SessionSpec { trust, model, ..SessionSpec::new("puppet", cwd) }) })
    }

    fn list(&self) -> Vec<ProfileSummary> {
        vec![ProfileSummary {
            name: "default".into(),
            executor: "puppet".into(),
            mode: Mode::Agent,
            model: None,
        }]
    }
}

/// Reports that no process, not even the test's own, belongs to an agent.
struct NoAgents;

impl AgentProcesses for NoAgents {
    fn list(&self) -> Vec<AgentProcess> {
        Vec::new()
    }
}

impl AgentSessions for NoAgents {
    fn session_of(&self, _: &str) -> Option<SessionId> {
        None
    }
}

impl AgentDelegation for NoAgents {
    fn is_within(&self, _: SessionId, _: SessionId) -> BoxFuture<'_, Result<bool, Failure>> {
        unreachable!("no agent has a session")
    }

    fn check_delegation<'a>(
        &'a self,
        _: SessionId,
        _: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        unreachable!("no agent has a session")
    }

    fn turn_limits(&self, _: SessionId) -> BoxFuture<'_, Result<DelegatedTurnLimits, Failure>> {
        unreachable!("no agent has a session")
    }
}

/// A configuration that never changes.
struct FixedConfig;

impl ConfigControl for FixedConfig {
    fn state(&self) -> ConfigState {
        ConfigState {
            path: "config.yaml".to_owned(),
            loaded_at: jiff::Timestamp::UNIX_EPOCH,
            waiting: Vec::new(),
            error: None,
        }
    }

    fn settings(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }

    fn origins(&self) -> std::collections::BTreeMap<String, String> {
        std::collections::BTreeMap::new()
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn reload(&self) -> BoxFuture<'_, Result<ConfigReload, String>> {
        Box::pin(async { Ok(ConfigReload::default()) })
    }
}

impl TestDaemon {
    pub(crate) fn new() -> Self {
        let (puppet, strings) = ManualExecutor::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store),
            clock: Arc::new(SystemClock),
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![puppet],
            limits: EngineLimits::default(),
            tasks: TaskGroup::new(),
        });
        let shared = Arc::new(ApiState {
            engine: engine.clone(),
            profiles: Arc::new(OneProfile),
            token: OwnerToken::new("unused"),
            logins: BrowserLogins::new(engine.clone()),
            feed: ChangeFeed::default(),
            agents: Arc::new(AgentAccess::new(Arc::new(NoAgents), Arc::new(NoAgents))),
            agent_processes: Arc::new(NoAgents),
            daemon: DaemonInfo {
                started_at: jiff::Timestamp::UNIX_EPOCH,
                address: "127.0.0.1:4376".to_owned(),
            },
            version: "1.2.3".into(),
            config_sha256: "c0ffee".into(),
            config: Arc::new(FixedConfig),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            models: LiveModels::default(),
            recent_requests: RecentRequests::default(),
            caller_limits: CallerLimits::default(),
            metrics: Metrics::default(),
            tasks: TaskGroup::new(),
            restarts: angelia_frontends::http::RestartRequests::new().0,
            bus: None,
            delivery_queue: None,
            hooks: None,
            chats: None,
        });
        let (doors, folder) = (TaskGroup::new(), tempfile::tempdir().unwrap());
        let stage = Self { control: strings, engine, store, folder, _listeners: doors.clone() };
        serve_unix(UnixListener::bind(stage.socket()).unwrap(), shared, &doors);
        stage
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("angelia.sock")
    }

    /// Returns the same records from the store and from the daemon.
    pub(crate) async fn records(&self) -> [Records; 2] {
        [Records::Store(Arc::clone(&self.store)), Records::Daemon(self.client().await)]
    }

    pub(crate) async fn client(&self) -> DaemonClient {
        DaemonClient::connect(&self.socket()).await.unwrap()
    }
}

/// Returns a turn that the owner types at a terminal.
pub(crate) fn owners_turn(session: SessionId, text: &str, can_ask: bool) -> TurnSubmission {
    let body = TurnBody {
        input: TurnInput(vec![Content::text(text)]),
        can_ask: Some(can_ask),
        ..TurnBody::default()
    };
    TurnSubmission { session, body, origin: TurnOrigin::Owner, key: None, hold: false }
}

/// Returns an agent's request for permission to paint.
pub(crate) fn approval_request(kind: ApprovalKind) -> ApprovalRequest {
    ApprovalRequest {
        key: "key-1".into(),
        stage: ApprovalStage::Request,
        access: ToolAccess::default(),
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind,
        tool_id: None,
        tool_name: "brush".into(),
        class: ToolClass::Edit,
        subject: None,
        title: "paint".into(),
        detail: "red".into(),
        input: serde_json::from_str("{}").unwrap(),
    }
}
