//! An executor in a home of its own.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc};

use angelia_core::{ports::Clock, ports::Executor, redact::Redactor, task::Tasks};
use angelia_executors::{
    Host, Registration,
    process::{HomeId, OwnerId},
};
use angelia_testkit::isolated::Isolated;
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

/// A place, and what the binary would hand to an executor there.
pub(crate) struct Place {
    pub(crate) isolated: Isolated,
    pub(crate) executor: Arc<dyn Executor>,
    /// How the marks of its processes begin.
    pub(crate) mark: String,
}

impl Place {
    /// `program` makes our own program in that place.
    pub(crate) fn new(
        registration: &Registration,
        program: impl FnOnce(&Isolated) -> PathBuf,
    ) -> Self {
        let isolated = Isolated::new().unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            isolated.environment().into_iter().collect();
        // Whatever our own environment holds must not decide how an agent is logged in.
        environment.insert("ANTHROPIC_API_KEY".into(), "must-not-leak".into());
        let home = HomeId::new("test-home").unwrap();
        let owner = OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap();
        let mark = format!("{home}:{owner}:");
        let host = Host {
            environment: Arc::new(environment),
            user_home: isolated.home(),
            home_id: home,
            owner_id: owner,
            work_dir: isolated.root().join("angelia/work"),
            ledger: isolated.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: Tasks::new(),
            clock: Arc::new(SystemClock),
            current_exe: program(&isolated),
            keep_warm: false,
        };
        let executor = (registration.build)(host);
        Self {
            isolated,
            executor,
            mark,
        }
    }
}
