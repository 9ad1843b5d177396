//! A temporary folder with a bus in it, one for each test.

use std::{path::PathBuf, sync::Arc};

use angelia_backends::bus::{BusLimits, LocalBus};
use angelia_core::ports::Bus;
use angelia_testkit::conformance::bus::TestBusConfig;
use proptest::prelude::ProptestConfig;
use tempfile::TempDir;

pub(crate) struct TempBus {
    folder: TempDir,
}

/// Configures proptest with few cases, because each opens a whole bus; `PROPTEST_CASES` sets more.
pub(crate) fn proptest_config(few: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if config.cases == 256 {
        config.cases = few;
    }
    config
}

pub(crate) fn bus_limits(wish: &TestBusConfig) -> BusLimits {
    BusLimits {
        message_ttl: wish.message_ttl,
        max_queued: wish.max_queued,
        dedupe_window: wish.dedupe_window,
    }
}

impl TempBus {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    pub(crate) fn open(&self, wish: &TestBusConfig) -> Arc<dyn Bus> {
        let clock = Arc::clone(&wish.clock) as _;
        LocalBus::open(&self.path(), bus_limits(wish), clock).unwrap()
    }
}
