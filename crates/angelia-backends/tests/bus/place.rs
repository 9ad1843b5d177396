//! A temporary folder with a bus in it, one for each test.

use std::{path::PathBuf, sync::Arc};

use angelia_backends::bus::{BusLimits, LocalBus};
use angelia_core::ports::Bus;
use angelia_testkit::conformance::bus::BusWish;
use proptest::prelude::ProptestConfig;
use tempfile::TempDir;

pub(crate) struct Place {
    folder: TempDir,
}

/// Configures proptest with few cases, because each opens a whole bus; `PROPTEST_CASES` sets more.
pub(crate) fn cases(few: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if config.cases == 256 {
        config.cases = few;
    }
    config
}

pub(crate) fn limits(wish: &BusWish) -> BusLimits {
    BusLimits {
        message_ttl: wish.message_ttl,
        max_queued: wish.max_queued,
        dedupe_window: wish.dedupe_window,
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    pub(crate) fn open(&self, wish: &BusWish) -> Arc<dyn Bus> {
        let clock = Arc::clone(&wish.clock) as _;
        LocalBus::open(&self.path(), limits(wish), clock).unwrap()
    }
}
