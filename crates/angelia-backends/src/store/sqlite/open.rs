//! Opens connections to the database file, with their flags and pragmas, and explains why a file
//! does not open.

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

/// How long to wait for another process that is writing.
pub(super) const BUSY: Duration = Duration::from_secs(5);

const STATEMENTS: usize = 64;

/// The `cache_size` of a connection; a negative value is in KiB. It is small because the operating
/// system caches the file as well: this cache is for pages that one transaction after the other
/// uses.
const CACHE: i32 = -512;

/// The length of the write-ahead log, in pages, from which on a commit itself runs a checkpoint.
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

/// Opens the writer's connection; creates or migrates the file where needed.
pub(super) fn writable(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error: &rusqlite::Error| OpenError::Failed { message: describe(path, error) };
    let is_new = !path.exists();
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| failed(&e))?;
    if is_new {
        // Before SQLite creates the log and its index, because they copy the mode of this file.
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
    // SQLite's busy timeout does not apply while the journal mode changes, so we wait here.
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

/// Opens a read-only connection to a file that [`open_writable`] has prepared.
pub(super) fn readable(path: &Path) -> rusqlite::Result<Connection> {
    let connection = existing(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens another connection that may write.
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
    // The query planner stability guarantee: otherwise a statement is planned again for new
    // values of its parameters.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection) -> Result<(), MigrateError> {
    // In a transaction, so as not to see a schema that another process has half created.
    let version = migrations::check(&*connection.transaction()?)?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    // A commit survives the death of the process; only a power failure may lose the last ones.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // The checkpointer normally empties the log; this limit is for when it cannot keep up.
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
