//! A temporary home folder with a store in it, one for each test.

use std::{path::PathBuf, sync::Arc};

use angelia_backends::{
    owners::{OwnerLock, Owners},
    store::{OpenError, SqliteStore},
};
use tempfile::TempDir;

pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state.db")
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn owners(&self) -> Owners {
        Owners::new(self.folder.path().join("run/owners"))
    }

    pub(crate) fn enter(&self) -> Arc<OwnerLock> {
        Arc::new(self.owners().enter("run").unwrap())
    }

    /// Opens the store as another process would.
    pub(crate) fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(&self.state(), self.enter())
    }
}
