//! From a path to a connection: flags, pragmas, and clear words when it does not open.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    migrations::{self, MigrateError},
    trouble::{describe, is_busy},
};

/// How long to wait for another process that writes.
pub(super) const BUSY: Duration = Duration::from_secs(5);

const STATEMENTS: usize = 64;

/// Of a connection, in kilobytes as SQLite wants to be told. The system keeps the file in memory
/// as well: this is for the pages that one transaction after the other comes back to.
const CACHE: i32 = -512;

/// How long the log may grow before a commit has to empty it, in pages.
const LOG_PAGES: i64 = 16_384;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{message}")]
    Failed { message: String },
    #[error(
        "{path} is a database of another program; \
         move it aside, or choose another folder with ANGELIA_HOME"
    )]
    Foreign { path: PathBuf },
    #[error(
        "{path} was written by a newer angelia (its schema is {found}, this version knows up to \
         {known}); use the newer version, or choose another folder with ANGELIA_HOME"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("could not start the thread that writes {path}: {source}")]
    Thread { path: PathBuf, source: io::Error },
}

/// The writer's connection, with the file created and migrated.
pub(super) fn writable(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error: &rusqlite::Error| OpenError::Failed { message: describe(path, error) };
    let is_new = !path.exists();
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| failed(&e))?;
    if is_new {
        // Before the log and its index appear, because they copy the mode of this file.
        make_private(path).map_err(|error| OpenError::Failed {
            message: format!("cannot make {} private: {error}", path.display()),
        })?;
    }
    if connection.is_readonly("main").map_err(|e| failed(&e))? {
        return Err(OpenError::Failed {
            message: format!(
                "cannot write {}: it is read-only; give your user write permission \
                 for the file and its folder",
                path.display()
            ),
        });
    }
    // SQLite does not wait for others while it changes the journal mode, so we do.
    let deadline = Instant::now() + BUSY;
    loop {
        match prepare(&mut connection) {
            Ok(()) => return Ok(connection),
            Err(MigrateError::Sql(error)) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(MigrateError::Sql(error)) => return Err(failed(&error)),
            Err(MigrateError::Foreign) => return Err(OpenError::Foreign { path: path.into() }),
            Err(MigrateError::Newer { found, known }) => {
                return Err(OpenError::Newer { path: path.into(), found, known });
            }
        }
    }
}

/// A further connection to a file that [`writable`] has prepared.
pub(super) fn readable(path: &Path) -> rusqlite::Result<Connection> {
    let connection = existing(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A further connection that may write.
pub(super) fn existing(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::empty())?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    Ok(connection)
}

fn connect(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else statements are planned anew for every value they are given.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection) -> Result<(), MigrateError> {
    // In a transaction, so as not to look at the half of what another process is creating.
    let version = migrations::check(&*connection.transaction()?)?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    // A commit survives the death of the process; only power loss may cost the last ones.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // The checkpointer empties the log beside the commits; this is for when it cannot.
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    if version == migrations::latest() {
        return Ok(());
    }
    migrations::run(connection)
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_path: &Path) -> io::Result<()> {
    Ok(())
}
