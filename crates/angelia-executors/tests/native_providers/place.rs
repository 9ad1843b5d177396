//! A host with a home and an environment of its own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    sync::{Arc, Mutex},
};

use angelia_core::{ports::Clock, redact::Redactor, task::TaskGroup};
use angelia_executors::{
    DelegationSlot, ExecutorHost,
    native::{
        provider::{Api, QuirkOverrides},
        providers::{KeyRotation, KeySource, Provider},
    },
    process::{HomeId, OwnerId},
};
use angelia_testkit::isolated_home::IsolatedHome;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// A clock that a test moves.
pub(crate) struct MovedClock(Mutex<Timestamp>);

impl MovedClock {
    pub(crate) fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(by).unwrap();
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

pub(crate) struct Place {
    pub(crate) folder: IsolatedHome,
    pub(crate) host: ExecutorHost,
    pub(crate) clock: Arc<MovedClock>,
}

impl Place {
    pub(crate) fn new(variables: &[(&str, &str)]) -> Self {
        let folder = IsolatedHome::new().unwrap();
        let mut environment: BTreeMap<OsString, OsString> =
            folder.environment().into_iter().collect();
        for (name, value) in variables {
            environment.insert(name.into(), value.into());
        }
        let clock = Arc::new(MovedClock(Mutex::new(Timestamp::from_second(1_000_000).unwrap())));
        let host = ExecutorHost {
            environment: Arc::new(environment),
            user_home: folder.home(),
            home_id: HomeId::new("test-home").unwrap(),
            owner_id: OwnerId::new(&Uuid::now_v7().simple().to_string()).unwrap(),
            work_dir: folder.root().join("angelia/work"),
            ledger: folder.root().join("angelia/run"),
            redactor: Redactor::default(),
            tasks: TaskGroup::new(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            current_exe: "/nonexistent".into(),
            prices: Arc::default(),
            providers: Arc::default(),
            delegation: DelegationSlot::default(),
            keep_warm: false,
            wire_log: None,
        };
        Self { folder, host, clock }
    }
}

pub(crate) fn provider(api: Api, base_url: String, keys: Vec<KeySource>) -> Provider {
    Provider {
        name: "home".into(),
        api,
        base_url: base_url.into(),
        keys,
        rotate: KeyRotation::default(),
        headers: BTreeMap::from([("x-team".into(), "blue".into())]),
        quirks: QuirkOverrides::default(),
        models: BTreeMap::new(),
        dump_failed_requests: false,
    }
}
