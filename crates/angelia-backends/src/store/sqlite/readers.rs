//! A few read-only connections, opened when they are first needed. Queries that may take long run
//! on blocking threads. Lookups by an index run on the caller's thread: the way to another thread
//! and back takes ten times as long as such a lookup.

use std::{path::Path, sync::Arc};

use angelia_core::ports::{StoreError, StoreFuture};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{
    error::{SqliteError, describe_error},
    open,
    writer::closed_error,
};

const MAX_BLOCKING_READS: usize = 4;
/// Lookups may open more connections at the same time; those are closed again.
const MAX_IDLE: usize = MAX_BLOCKING_READS;

#[derive(Debug)]
pub(super) struct Readers {
    path: Arc<Path>,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: Arc<Path>) -> Self {
        Self::with_idle(path, Vec::new())
    }

    /// Starts with connections that are open already.
    pub(super) fn with_idle(path: Arc<Path>, idle: Vec<Connection>) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_BLOCKING_READS));
        Self { path, permits, idle: Arc::new(Mutex::new(idle)) }
    }

    /// Runs a query on a blocking thread.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit =
            Arc::clone(&self.permits).acquire_owned().await.map_err(|_closed| closed_error())?;
        let (path, idle) = (Arc::clone(&self.path), Arc::clone(&self.idle));
        let work = move || {
            let _permit = permit;
            run_query(&path, &idle, query)
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_runtime_stops| Err(closed_error()))
    }

    /// Reads a few rows that an index finds, on the caller's thread.
    pub(super) fn look_up<'a, T: Send + 'a>(
        &'a self,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if self.permits.is_closed() {
                return Err(closed_error());
            }
            run_query(&self.path, &self.idle, query)
        })
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }
}

/// Runs a query on an idle connection, or on a new one if all are in use.
fn run_query<T>(
    path: &Path,
    idle: &Mutex<Vec<Connection>>,
    query: impl FnOnce(&Connection) -> Result<T, SqliteError>,
) -> Result<T, StoreError> {
    let connection = idle.lock().pop();
    let connection = match connection {
        Some(connection) => connection,
        None => open::open_read_only(path)
            .map_err(|error| StoreError::Failed { message: describe_error(path, &error) })?,
    };
    let answer = query(&connection).map_err(|error| error.into_store_error(path));
    let mut idle = idle.lock();
    if idle.len() < MAX_IDLE {
        idle.push(connection);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn few_connections_stay_open_after_many_lookups_at_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state.db");
        drop(open::open_writable(&path).unwrap());
        let idle = Mutex::default();
        let lookups = 3 * MAX_IDLE;
        let barrier = Barrier::new(lookups);
        std::thread::scope(|scope| {
            for _ in 0..lookups {
                scope.spawn(|| {
                    let query = |_: &Connection| {
                        barrier.wait();
                        Ok(())
                    };
                    run_query(&path, &idle, query).unwrap();
                });
            }
        });
        assert_eq!(idle.lock().len(), MAX_IDLE);
    }
}
