//! A small SQLite file of its own, beside the store: one connection, used on blocking threads. It is
//! synced at every commit, because what is in it was promised to somebody outside.

use std::{
    fmt,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::ports::{StoreError, StoreFuture};
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct SmallDatabase {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
}

impl SmallDatabase {
    /// Opens or makes the file. `schema` has the statements of each version; those that the file
    /// lacks are run.
    pub(crate) fn open(path: &Path, schema: &[&str]) -> Result<Self, StoreError> {
        let failed = |error: &dyn fmt::Display| file_error(path, error);
        let mut connection = Connection::open(path).map_err(|error| failed(&error))?;
        // Before SQLite creates the write-ahead log, which copies the mode of this file: both
        // hold what people have said.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| failed(&error))?;
        prepare(&mut connection, schema).map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_owned(), connection: Arc::new(Mutex::new(connection)) })
    }

    /// Runs `act` on a blocking thread, because it waits for the disk.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let this = self.clone();
        Box::pin(async move {
            let acting = tokio::task::spawn_blocking(move || {
                let mut connection = this.connection.lock();
                act(&mut connection).map_err(|error| file_error(&this.path, &error))
            });
            acting.await.unwrap_or_else(|error| {
                let message = format!("a database could not be used: {error}");
                Err(StoreError::Failed { message })
            })
        })
    }
}

fn prepare(connection: &mut Connection, schema: &[&str]) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // Several processes may open the file at once, and only one of them changes it.
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: u32 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for statements in schema.iter().skip(version as usize) {
        change.execute_batch(statements)?;
    }
    let newest = u32::try_from(schema.len()).unwrap_or(u32::MAX).max(version);
    change.pragma_update(None, "user_version", newest)?;
    change.commit()
}

fn file_error(path: &Path, error: &dyn fmt::Display) -> StoreError {
    StoreError::Failed { message: format!("cannot use {}: {error}", path.display()) }
}
