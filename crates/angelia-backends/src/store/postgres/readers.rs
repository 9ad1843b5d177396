//! A few connections that read, opened when they are first needed. A read that loses its connection is
//! tried again on another one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use angelia_core::ports::StoreError;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_postgres::Row;

use super::{
    PostgresAddress,
    connection::{ConnectError, Parameters, PgConnection},
    error::{PgError, Trouble, closed_error},
    link::{self, PATIENCE},
};

const MAX_READS: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// A request for a connection: the store's thread makes it, because its runtime moves the bytes.
pub(super) type ConnectRequest = oneshot::Sender<Result<PgConnection, ConnectError>>;

#[derive(Debug)]
pub(super) struct Readers {
    address: PostgresAddress,
    permits: Semaphore,
    idle: Mutex<Vec<PgConnection>>,
    requests: mpsc::Sender<ConnectRequest>,
    is_abandoned: Arc<AtomicBool>,
}

impl Readers {
    pub(super) fn new(
        address: PostgresAddress,
        requests: mpsc::Sender<ConnectRequest>,
        is_abandoned: Arc<AtomicBool>,
    ) -> Self {
        let permits = Semaphore::new(MAX_READS);
        Self { address, permits, idle: Mutex::default(), requests, is_abandoned }
    }

    /// Runs a query and converts its rows.
    pub(super) async fn read<T>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        record: impl Fn(&Row) -> Result<T, PgError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.query(sql, parameters).await?;
        let records = rows.iter().map(record).collect::<Result<_, _>>();
        records.map_err(|error| self.store_error(error))
    }

    pub(super) fn store_error(&self, error: PgError) -> StoreError {
        error.into_store_error(&self.address)
    }

    /// Runs a query.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_closed| closed_error())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match self.try_query(sql, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            let is_hopeless = self.permits.is_closed() || self.is_abandoned.load(Ordering::Relaxed);
            if !error.is_temporary || Instant::now() > deadline || is_hopeless {
                return Err(error.error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_query(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, ReadFailure> {
        let connection = self.connection().await?;
        match connection.query(sql, parameters).await.map_err(PgError::from) {
            Ok(rows) => {
                if !self.permits.is_closed() {
                    self.idle.lock().push(connection);
                }
                Ok(rows)
            }
            Err(error) => {
                let is_temporary = error.trouble() != Trouble::Statement;
                if !is_temporary {
                    self.idle.lock().push(connection);
                }
                Err(ReadFailure { error: self.store_error(error), is_temporary })
            }
        }
    }

    async fn connection(&self) -> Result<PgConnection, ReadFailure> {
        let idle = self.idle.lock().pop();
        if let Some(connection) = idle.filter(|connection| !connection.client().is_closed()) {
            return Ok(connection);
        }
        let (reply, answer) = oneshot::channel();
        let closed = || ReadFailure { error: closed_error(), is_temporary: false };
        self.requests.send(reply).await.map_err(|_closed| closed())?;
        let connected = answer.await.map_err(|_closed| closed())?;
        connected.map_err(|error| ReadFailure {
            is_temporary: match &error {
                ConnectError::TimedOut => true,
                ConnectError::Sql(error) => link::is_worth_waiting(error),
            },
            error: StoreError::Failed {
                message: link::describe_connect_error(&error, &self.address),
            },
        })
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }
}

struct ReadFailure {
    error: StoreError,
    /// The same may work in a moment.
    is_temporary: bool,
}
