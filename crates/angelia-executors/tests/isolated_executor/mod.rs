//! An executor in an isolated home, for the tests of all executors. Included by path; contains no
//! tests.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc};

use angelia_core::{ports::Executor, redact::Redactor, task::TaskGroup};
use angelia_executors::{
    ExecutorHost, Registration,
    process::{HomeId, OwnerId},
};
use angelia_testkit::{clock::SystemClock, isolated_home::IsolatedHome};
use uuid::Uuid;

/// Variables that must not reach a child, even if our own environment has them.
const NOT_FOR_CHILDREN: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDECODE",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "SECRET_OF_OURS",
];

/// An isolated home, and an executor with the host that the binary would pass to it.
pub(crate) struct IsolatedExecutor {
    pub(crate) isolated: IsolatedHome,
    pub(crate) host: ExecutorHost,
    pub(crate) executor: Arc<dyn Executor>,
    /// The prefix of its processes' marks.
    pub(crate) mark: String,
}

impl IsolatedExecutor {
    pub(crate) fn new(registration: &Registration) -> Self {
        Self::with(registration, |_, _| {})
    }

    /// Like [`Self::new`], with a host that `change` has modified.
    pub(crate) fn with(
        registration: &Registration,
        change: impl FnOnce(&IsolatedHome, &mut ExecutorHost),
    ) -> Self {
        let isolated = IsolatedHome::new().unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            isolated.environment().into_iter().collect();
        for name in NOT_FOR_CHILDREN {
            environment.insert(name.into(), "must-not-leak".into());
        }
        let mut host = ExecutorHost {
            environment: Arc::new(environment),
            user_home: isolated.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: isolated.root().join("angelia/work"),
            ledger: isolated.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: TaskGroup::new(),
            clock: Arc::new(SystemClock),
            current_exe: "/nonexistent".into(),
            prices: Arc::default(),
            keep_warm: false,
        };
        change(&isolated, &mut host);
        Self {
            isolated,
            executor: (registration.build)(host.clone()),
            mark: format!("{}:{}:", host.home_id, host.owner_id),
            host,
        }
    }
}
