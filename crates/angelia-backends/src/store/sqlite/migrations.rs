//! The schema's history. Numbered, append-only: a released migration never changes.

use rusqlite::{Connection, TransactionBehavior};

use super::words::number;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_governance.sql"),
    include_str!("migrations/0003_callers.sql"),
];

/// `user_version` of a database that has seen all of them.
pub(super) fn latest() -> i64 {
    number(MIGRATIONS.len())
}

/// Says that a file is ours: "Ange".
const APPLICATION: i64 = 0x416e_6765;

#[derive(Debug)]
pub(super) enum MigrateError {
    Sql(rusqlite::Error),
    Foreign,
    Newer { found: i64, known: i64 },
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// May we touch this file at all? Returns its version and changes nothing.
pub(super) fn check(connection: &Connection) -> Result<i64, MigrateError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let is_empty: bool =
        connection
            .query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
    if application != APPLICATION && !(found == 0 && application == 0 && is_empty) {
        return Err(MigrateError::Foreign);
    }
    if found > latest() {
        return Err(MigrateError::Newer { found, known: latest() });
    }
    Ok(found)
}

/// Brings the schema up to date. Of several processes that start at once, one does it.
pub(super) fn run(connection: &mut Connection) -> Result<(), MigrateError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let found = check(&transaction)?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", latest())?;
    transaction.commit()?;
    Ok(())
}
