//! The row of this process in the table of owners, and the owners of sessions.
//!
//! Whether an owner of this machine lives is told by its lock file (`crate::owners`), as in SQLite; an owner of
//! another machine lives while its row is fresh by the server's clock.

use std::sync::Arc;

use angelia_core::{
    model::SessionId,
    ports::{LeaseHolder, StoreError},
};
use tokio_postgres::Row;

use super::{connection::PgConnection, error::PgError};
use crate::{
    owners::{OwnerLock, OwnerRegistry},
    store::writer_owner::WriterOwner,
};

/// This machine, as the database knows it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Unique, and the same as long as the home exists.
    pub id: Arc<str>,
    /// The name for people.
    pub name: Arc<str>,
}

/// This process in the table of owners.
#[derive(Debug)]
pub(super) struct RegisteredOwner {
    lock: Arc<OwnerLock>,
}

/// SQL for an owner `o` that counts as living although its lock file is on another machine.
const IS_FRESH: &str = "o.dead_at IS NULL AND o.seen_at > clock_timestamp() - interval '30 s'";

/// The lock that migrations and registrations take: "Ange".
pub(super) const ADVISORY_LOCK: i64 = 0x416e_6765;

impl RegisteredOwner {
    /// Takes the lock file and adds the row, unless another machine uses the database.
    pub(super) async fn register(
        connection: &PgConnection,
        owner: &WriterOwner,
        machine: &Machine,
    ) -> Result<Self, PgError> {
        let lock =
            owner.register().map_err(|error| StoreError::Failed { message: error.to_string() })?;
        let client = connection.client();
        client.batch_execute("BEGIN").await?;
        match add_row(connection, &lock, machine).await {
            Ok(()) => client.batch_execute("COMMIT").await?,
            Err(error) => {
                client.batch_execute("ROLLBACK").await?;
                return Err(error);
            }
        }
        Ok(Self { lock })
    }

    pub(super) fn id(&self) -> &str {
        self.lock.id()
    }

    pub(super) fn registry(&self) -> &OwnerRegistry {
        self.lock.registry()
    }
}

async fn add_row(
    connection: &PgConnection,
    lock: &OwnerLock,
    machine: &Machine,
) -> Result<(), PgError> {
    connection.query("SELECT pg_advisory_xact_lock($1)", &[&ADVISORY_LOCK]).await?;
    let sql = format!(
        "SELECT m.name FROM owners o JOIN machines m ON m.id = o.machine
         WHERE o.machine <> $1 AND {IS_FRESH} LIMIT 1"
    );
    if let Some(row) = connection.query(&sql, &[&&*machine.id]).await?.first() {
        let other = String::from_utf8_lossy(row.try_get(0)?).into_owned();
        let message = format!(
            "the database is in use by the machine `{other}`; several machines cannot share one \
             yet: stop angelia there, and try again half a minute later"
        );
        return Err(StoreError::Failed { message }.into());
    }
    connection
        .execute(
            "INSERT INTO machines (id, name) VALUES ($1, $2)
             ON CONFLICT (id) DO UPDATE SET name = excluded.name",
            &[&&*machine.id, &machine.name.as_bytes()],
        )
        .await?;
    // Rows that nothing refers to any more.
    connection
        .execute(
            "DELETE FROM owners o WHERE o.seen_at < clock_timestamp() - interval '1 day'
                AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.owner = o.id)",
            &[],
        )
        .await?;
    let holder = lock.registry().holder(lock.id());
    let (pid, command) = holder.map_or((0, String::new()), |one| (one.pid, one.command));
    // The connection may have been lost after an earlier attempt with the same lock was committed.
    connection
        .execute(
            "INSERT INTO owners (id, machine, pid, command) VALUES ($1, $2, $3, $4)
             ON CONFLICT (id) DO NOTHING",
            &[&lock.id(), &&*machine.id, &i64::from(pid), &command],
        )
        .await?;
    Ok(())
}

/// Keeps the row of this process fresh while there is nothing to write.
pub(super) async fn beat(connection: &PgConnection, owner: &str) -> Result<(), PgError> {
    let sql = "UPDATE owners SET seen_at = clock_timestamp() WHERE id = $1 AND dead_at IS NULL";
    connection.execute(sql, &[&owner]).await.map(drop)
}

/// Marks an owner dead: its next write is refused. Waits for a write that is under way. An owner of
/// another machine that has just been heard stays as it is.
pub(super) async fn mark_dead(
    connection: &PgConnection,
    owner: &str,
    machine: &Machine,
) -> Result<(), PgError> {
    let sql = "UPDATE owners SET dead_at = clock_timestamp() WHERE id = $1 AND dead_at IS NULL
        AND (machine = $2 OR seen_at < clock_timestamp() - interval '30 s')";
    connection.execute(sql, &[&owner, &&*machine.id]).await.map(drop)
}

/// The lease of a session as it is in the table.
#[derive(Debug)]
pub(super) struct StoredLease {
    pub(super) owner: Option<String>,
    pub(super) epoch: i64,
    state: OwnerState,
}

/// What the database knows of an owner.
#[derive(Debug, Default)]
pub(super) struct OwnerState {
    machine: Option<String>,
    pid: Option<i64>,
    command: Option<String>,
    is_fresh: Option<bool>,
}

/// The columns that [`OwnerState::read`] reads, of `owners o`.
pub(super) fn owner_columns() -> String {
    format!("o.machine, o.pid, o.command, {IS_FRESH}")
}

impl OwnerState {
    /// Reads the columns that begin at `first`.
    pub(super) fn read(row: &Row, first: usize) -> Result<Self, PgError> {
        Ok(Self {
            machine: row.try_get(first)?,
            pid: row.try_get(first + 1)?,
            command: row.try_get(first + 2)?,
            is_fresh: row.try_get(first + 3)?,
        })
    }

    pub(super) fn is_alive(&self, id: &str, machine: &Machine, registry: &OwnerRegistry) -> bool {
        match self.machine.as_deref() {
            None => false,
            Some(here) if here == &*machine.id => registry.is_alive(id),
            Some(_elsewhere) => self.is_fresh.unwrap_or_default(),
        }
    }

    fn holder(&self) -> LeaseHolder {
        LeaseHolder {
            pid: self.pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default(),
            command: self.command.clone().unwrap_or_else(|| "(unknown)".to_owned()),
        }
    }
}

impl StoredLease {
    /// Reads the lease of a session, and locks it if it will be changed.
    pub(super) async fn read(
        connection: &PgConnection,
        session: SessionId,
        is_locked: bool,
    ) -> Result<Self, PgError> {
        let lock = if is_locked { "FOR UPDATE OF l" } else { "" };
        let sql = format!(
            "SELECT l.owner, l.epoch, {} FROM leases l LEFT JOIN owners o ON o.id = l.owner
             WHERE l.session_id = $1 {lock}",
            owner_columns()
        );
        let rows = connection.query(&sql, &[&session.as_uuid()]).await?;
        let row = rows.first().ok_or(StoreError::SESSION_NOT_FOUND)?;
        Ok(Self {
            owner: row.try_get(0)?,
            epoch: row.try_get(1)?,
            state: OwnerState::read(row, 2)?,
        })
    }

    /// Fails if another living process owns the session.
    pub(super) fn refuse_if_held(
        &self,
        me: &RegisteredOwner,
        machine: &Machine,
    ) -> Result<(), PgError> {
        match &self.owner {
            Some(owner)
                if *owner != me.id() && self.state.is_alive(owner, machine, me.registry()) =>
            {
                Err(StoreError::Held(self.state.holder()).into())
            }
            _ => Ok(()),
        }
    }
}
