//! A temporary home folder with a store in it, one for each test.

use std::{path::PathBuf, sync::Arc};

use angelia_backends::{
    owners::{OwnerLock, OwnerRegistry},
    store::{OpenStoreError, SqliteStore},
};
use tempfile::TempDir;

pub(crate) struct TempHome {
    folder: TempDir,
}

impl TempHome {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn database_path(&self) -> PathBuf {
        self.folder.path().join("state.db")
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn owners(&self) -> OwnerRegistry {
        OwnerRegistry::new(self.folder.path().join("run/owners"))
    }

    pub(crate) fn register_owner(&self) -> Arc<OwnerLock> {
        Arc::new(self.owners().register("run").unwrap())
    }

    /// Opens the store as another process would.
    pub(crate) fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<SqliteStore, OpenStoreError> {
        SqliteStore::open(&self.database_path(), self.register_owner())
    }
}
