//! An executor in a home of its own, as the tests of all executors need it. Included by path; no test
//! of its own.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc};

use angelia_core::{ports::Executor, redact::Redactor, task::Tasks};
use angelia_executors::{
    Host, Registration,
    process::{HomeId, OwnerId},
};
use angelia_testkit::{clock::SystemClock, isolated::Isolated};
use uuid::Uuid;

/// What must not reach a child, whatever our own environment holds.
const NOT_FOR_CHILDREN: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDECODE",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "SECRET_OF_OURS",
];

/// A place, and what the binary would hand to an executor there.
pub(crate) struct Place {
    pub(crate) isolated: Isolated,
    pub(crate) host: Host,
    pub(crate) executor: Arc<dyn Executor>,
    /// How the marks of its processes begin.
    pub(crate) mark: String,
}

impl Place {
    pub(crate) fn new(registration: &Registration) -> Self {
        Self::with(registration, |_, _| {})
    }

    /// `change` makes another host of the usual one.
    pub(crate) fn with(
        registration: &Registration,
        change: impl FnOnce(&Isolated, &mut Host),
    ) -> Self {
        let isolated = Isolated::new().unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            isolated.environment().into_iter().collect();
        for name in NOT_FOR_CHILDREN {
            environment.insert(name.into(), "must-not-leak".into());
        }
        let mut host = Host {
            environment: Arc::new(environment),
            user_home: isolated.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: isolated.root().join("angelia/work"),
            ledger: isolated.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: Tasks::new(),
            clock: Arc::new(SystemClock),
            current_exe: "/nonexistent".into(),
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
