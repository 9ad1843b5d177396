//! A connection to the database, with the settings that the store relies on and its prepared statements.

use std::{collections::HashMap, time::Duration};

use angelia_core::task::TaskGroup;
use parking_lot::Mutex;
use tokio_postgres::{Client, NoTls, Row, Statement, types::ToSql};

use super::{PostgresAddress, error::PgError};

/// The parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// An attempt to connect takes at most so long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// `search_path`: the tables are ours alone. The isolation is the one that the statements are written
/// for, whatever the default of the database. A transaction of a process that hangs, or whose
/// network is cut, must not hold its locks for long.
const SETTINGS: &str = "SET search_path = angelia;
    SET default_transaction_isolation = 'read committed';
    SET idle_in_transaction_session_timeout = '5s';
    SET client_min_messages = 'warning'";

#[derive(Debug)]
pub(super) struct PgConnection {
    client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

/// An attempt to connect that failed.
#[derive(Debug)]
pub(super) enum ConnectError {
    Sql(tokio_postgres::Error),
    TimedOut,
}

impl From<tokio_postgres::Error> for ConnectError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl PgConnection {
    /// Connects. The task that moves the bytes is one of `tasks` and ends with the connection.
    pub(super) async fn open(
        address: &PostgresAddress,
        tasks: &TaskGroup,
    ) -> Result<Self, ConnectError> {
        let attempt = async {
            let client = if let Some(tls) = &address.tls {
                let (client, connection) = address.config.connect(tls.clone()).await?;
                tasks.spawn(async move { note_end(connection.await) });
                client
            } else {
                let (client, connection) = address.config.connect(NoTls).await?;
                tasks.spawn(async move { note_end(connection.await) });
                client
            };
            client.batch_execute(SETTINGS).await?;
            Ok(Self { client, statements: Mutex::default() })
        };
        tokio::time::timeout(CONNECT_TIMEOUT, attempt).await.unwrap_or(Err(ConnectError::TimedOut))
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the prepared statement; the first use of a text asks the server.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared(sql) {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.lock().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Returns the statement if it has been prepared.
    pub(super) fn prepared(&self, sql: &str) -> Option<Statement> {
        self.statements.lock().get(sql).cloned()
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, parameters).await
    }

    /// Returns the number of rows that the statement has changed.
    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, PgError> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.execute(&statement, parameters).await?)
    }
}

fn note_end(end: Result<(), tokio_postgres::Error>) {
    if let Err(error) = end {
        tracing::debug!(%error, "a connection to the database has ended");
    }
}
