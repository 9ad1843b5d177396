//! A daemon for tests of commands: its HTTP frontend on a real socket, with a puppet agent behind
//! it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_backends::store::MemoryStore;
use angelia_core::{
    engine::{Engine, Limits, Parts},
    model::{ApprovalKind, ApprovalRequest, Failure, Mode, SessionSpec, ToolClass},
    ports::{BoxFuture, ProfileSummary, Profiles, Store, Wanted},
    task::Tasks,
};
use angelia_frontends::http::{
    ApiState, Metrics, OwnerToken,
    dialect::{ModelSettings, Recent},
    serve_unix,
};
use angelia_testkit::puppet::{Puppet, Strings};
use tokio::net::UnixListener;

use super::Daemon;
use crate::clock::SystemClock;

/// Longer than anything that a working test waits for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Stage {
    pub(crate) strings: Strings,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: tempfile::TempDir,
    _doors: Tasks,
}

struct OneProfile;

impl Profiles for OneProfile {
    fn spec(&self, wanted: Wanted) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
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

impl Stage {
    pub(crate) fn new() -> Self {
        let (puppet, strings) = Puppet::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::new(Parts {
            store: Arc::clone(&store),
            clock: Arc::new(SystemClock),
            executors: vec![puppet],
            limits: Limits::default(),
            tasks: Tasks::new(),
        });
        let shared = Arc::new(ApiState {
            engine: engine.clone(),
            profiles: Arc::new(OneProfile),
            token: OwnerToken::new("unused"),
            version: "1.2.3".into(),
            config_sha256: "c0ffee".into(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            models: ModelSettings::default(),
            recent: Recent::default(),
            metrics: Metrics::default(),
            tasks: Tasks::new(),
            bus: None,
        });
        let (doors, folder) = (Tasks::new(), tempfile::tempdir().unwrap());
        let stage = Self { strings, engine, store, folder, _doors: doors.clone() };
        serve_unix(UnixListener::bind(stage.socket()).unwrap(), shared, &doors);
        stage
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("angelia.sock")
    }

    pub(crate) async fn daemon(&self) -> Daemon {
        Daemon::connect(&self.socket()).await.unwrap()
    }
}

/// An agent asks whether it may paint.
pub(crate) fn question(kind: ApprovalKind) -> ApprovalRequest {
    ApprovalRequest {
        key: "key-1".into(),
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
