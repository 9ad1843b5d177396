//! Schema migrations, numbered and append-only: a released migration never changes.

use rusqlite::{Connection, TransactionBehavior};

use super::columns::to_i64;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_governance.sql"),
    include_str!("migrations/0003_callers.sql"),
    include_str!("migrations/0004_order.sql"),
    include_str!("migrations/0005_rules.sql"),
    include_str!("migrations/0006_audit.sql"),
    include_str!("migrations/0007_session_lists.sql"),
    include_str!("migrations/0008_usage_and_search.sql"),
    include_str!("migrations/0009_schedules.sql"),
    include_str!("migrations/0010_charged_to.sql"),
    include_str!("migrations/0011_dashboard.sql"),
    include_str!("migrations/0012_tool_choice.sql"),
];

/// Returns the `user_version` of a database with all migrations.
pub(super) fn latest_version() -> i64 {
    to_i64(MIGRATIONS.len())
}

/// The `application_id` that marks a file as ours: "Ange".
const APPLICATION_ID: i64 = 0x416e_6765;

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

/// Checks that the file is ours and not of a newer version. Returns its version and changes
/// nothing.
pub(super) fn check_version(connection: &Connection) -> Result<i64, MigrateError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let is_empty: bool =
        connection
            .query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
    if application != APPLICATION_ID && !(found == 0 && application == 0 && is_empty) {
        return Err(MigrateError::Foreign);
    }
    if found > latest_version() {
        return Err(MigrateError::Newer { found, known: latest_version() });
    }
    Ok(found)
}

/// Brings the schema up to date. When several processes start at once, one of them does it.
pub(super) fn run(connection: &mut Connection) -> Result<(), MigrateError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let found = check_version(&transaction)?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", latest_version())?;
    transaction.commit()?;
    Ok(())
}
