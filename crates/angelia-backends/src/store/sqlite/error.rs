//! The errors inside the store, and the messages for people: each names the failure, the next step,
//! and the data that is safe.

use std::path::Path;

use angelia_core::ports::StoreError;
use rusqlite::ErrorCode;

use super::super::unreadable::Unreadable;

/// The error of a statement or of a conversion.
#[derive(Debug)]
pub(super) enum SqliteError {
    Sql(rusqlite::Error),
    /// The database works, but the store's rules forbid this operation.
    Refused(StoreError),
    Unreadable(Unreadable),
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for SqliteError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Unreadable> for SqliteError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl SqliteError {
    pub(super) fn into_store_error(self, path: &Path) -> StoreError {
        let message = match self {
            Self::Refused(error) => return error,
            Self::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => {
                return StoreError::TooLarge { message: describe_error(path, &error) };
            }
            Self::Sql(error) => describe_error(path, &error),
            Self::Unreadable(what) => what.describe(path.display()),
        };
        StoreError::Failed { message }
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

pub(super) fn describe_error(path: &Path, error: &rusqlite::Error) -> String {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => format!(
            "cannot write {path}: the disk is full; free some space and try again \
             (what is recorded already is safe)"
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => format!(
            "cannot write {path}: it is read-only; give your user write permission \
             for the file and its folder"
        ),
        Some(ErrorCode::CannotOpen) => format!(
            "cannot open {path} ({error}); check that its folder exists and that your user \
             may read and write there"
        ),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => format!(
            "{path} is damaged or not a database ({error}); stop angelia, move the file aside \
             (mv '{path}' '{path}.damaged') and start again with an empty one; \
             `sqlite3 '{path}.damaged' .recover` may save what is in it"
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!(
            "{path} is busy: another process has been writing to it for seconds; try again, \
             and if it stays so, look for a stopped angelia process"
        ),
        Some(ErrorCode::TooBig) => format!("cannot write {path}: a text is too long for SQLite"),
        Some(ErrorCode::SystemIoFailure) => {
            format!("cannot read or write {path} ({error}); check the disk and the free space")
        }
        _ => format!("{path}: {error}"),
    }
}
