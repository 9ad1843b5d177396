//! Opens connections to the database file, with their flags and pragmas, and explains why a file
//! cannot be opened.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    error::{describe_error, is_busy},
    migrations::{self, MigrateError},
};
use crate::owners::RegisterError;

/// The longest wait for another process that is writing.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const MAX_CACHED_STATEMENTS: usize = 64;

/// The `cache_size` of a connection; a negative value is in KiB. It is small because the operating
/// system caches the file as well: this cache is for pages that one transaction after the other
/// uses.
const CACHE_SIZE: i32 = -512;

/// The length of the write-ahead log, in pages, from which on a commit itself runs a checkpoint.
const AUTOCHECKPOINT_PAGES: i64 = 16_384;

#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
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
    #[error(transparent)]
    Owner(#[from] RegisterError),
}

/// Opens the writer's connection; creates or migrates the file where needed.
pub(super) fn open_writable(path: &Path) -> Result<Connection, OpenStoreError> {
    let failed =
        |error: &rusqlite::Error| OpenStoreError::Failed { message: describe_error(path, error) };
    let is_new = !path.exists();
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| failed(&e))?;
    if is_new {
        // Before SQLite creates the log and its index, because they copy the mode of this file.
        make_private(path).map_err(|error| OpenStoreError::Failed {
            message: format!("cannot make {} private: {error}", path.display()),
        })?;
    }
    if connection.is_readonly("main").map_err(|e| failed(&e))? {
        return Err(OpenStoreError::Failed {
            message: format!(
                "cannot write {}: it is read-only; give your user write permission \
                 for the file and its folder",
                path.display()
            ),
        });
    }
    // SQLite's busy timeout does not apply while the journal mode changes, so we wait here.
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match configure_and_migrate(&mut connection) {
            Ok(()) => return Ok(connection),
            Err(MigrateError::Sql(error)) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(MigrateError::Sql(error)) => return Err(failed(&error)),
            Err(MigrateError::Foreign) => {
                return Err(OpenStoreError::Foreign { path: path.into() });
            }
            Err(MigrateError::Newer { found, known }) => {
                return Err(OpenStoreError::Newer { path: path.into(), found, known });
            }
        }
    }
}

/// Opens a read-only connection to a file that exists.
pub(super) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_existing(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens a read-only connection if the file is there and its schema up to date. Otherwise
/// [`open_writable`] creates or migrates it, or says why it cannot be used.
pub(super) fn open_up_to_date(path: &Path) -> Option<Connection> {
    let connection = open_read_only(path).ok()?;
    // A migration commits the new version together with the new schema.
    let version = migrations::check_version(&connection).ok()?;
    (version == migrations::latest_version()).then_some(connection)
}

/// Opens another connection that may write.
pub(super) fn open_existing(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::empty())?;
    connection.pragma_update(None, "cache_size", CACHE_SIZE)?;
    Ok(connection)
}

fn connect(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(MAX_CACHED_STATEMENTS);
    // The query planner stability guarantee: otherwise a statement is planned again for new
    // values of its parameters.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn configure_and_migrate(connection: &mut Connection) -> Result<(), MigrateError> {
    // In a transaction, so as not to see a schema that another process has half created.
    let version = migrations::check_version(&*connection.transaction()?)?;
    connection.pragma_update(None, "cache_size", CACHE_SIZE)?;
    // A commit survives the death of the process; only a power failure may lose the last ones.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // The checkpointer normally empties the log; this limit is for when it cannot keep up.
    connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
    if version == migrations::latest_version() {
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
