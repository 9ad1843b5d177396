//! Schema migrations, numbered and append-only: a released migration never changes.

use super::{connection::PgConnection, owner_row::ADVISORY_LOCK};

const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_initial.sql")];

/// Returns the version of a database with all migrations.
pub(super) fn latest_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

#[derive(Debug)]
pub(super) enum MigrateError {
    Sql(tokio_postgres::Error),
    Newer { found: i64 },
}

impl From<tokio_postgres::Error> for MigrateError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

/// Brings the schema up to date. When several processes start at once, one of them does it.
pub(super) async fn run(connection: &PgConnection) -> Result<(), MigrateError> {
    if check_version(connection).await? == latest_version() {
        return Ok(());
    }
    let client = connection.client();
    client.batch_execute("BEGIN").await?;
    let done = migrate(connection).await;
    client.batch_execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    done
}

async fn migrate(connection: &PgConnection) -> Result<(), MigrateError> {
    connection.query("SELECT pg_advisory_xact_lock($1)", &[&ADVISORY_LOCK]).await?;
    let found = check_version(connection).await?;
    let client = connection.client();
    if found == 0 {
        client
            .batch_execute(
                "CREATE SCHEMA IF NOT EXISTS angelia;
                 CREATE TABLE IF NOT EXISTS angelia.schema_version (version bigint NOT NULL)",
            )
            .await?;
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        client.batch_execute(migration).await?;
    }
    client.batch_execute("DELETE FROM schema_version").await?;
    let version = "INSERT INTO schema_version (version) VALUES ($1)";
    client.execute(version, &[&latest_version()]).await?;
    Ok(())
}

/// Returns the version of the schema, which is 0 if there is none.
async fn check_version(connection: &PgConnection) -> Result<i64, MigrateError> {
    // Not prepared: the table appears between two calls.
    let client = connection.client();
    let is_there = "SELECT to_regclass('angelia.schema_version') IS NOT NULL";
    let is_there: bool = client.query_one(is_there, &[]).await?.try_get(0)?;
    if !is_there {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) FROM angelia.schema_version";
    let found = client.query_one(version, &[]).await?.try_get(0)?;
    if found > latest_version() {
        return Err(MigrateError::Newer { found });
    }
    Ok(found)
}
