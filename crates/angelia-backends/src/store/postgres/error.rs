//! The errors inside the store, and the messages for people: each names the failure and the next step.

use std::{error::Error as _, io};

use angelia_core::ports::StoreError;
use tokio_postgres::error::SqlState;

use super::PostgresAddress;
use crate::store::unreadable::Unreadable;

/// The error of a statement or of a conversion.
#[derive(Debug)]
pub(super) enum PgError {
    Sql(tokio_postgres::Error),
    /// The database works, but the store's rules forbid this operation.
    Refused(StoreError),
    Unreadable(Unreadable),
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for PgError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Unreadable> for PgError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

/// What a failed statement means for its transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The connection is gone or of no use; another one may work.
    Connection,
    /// Another transaction was in the way; the same again may work.
    Collision,
    /// The statement itself.
    Statement,
}

pub(super) fn trouble(error: &tokio_postgres::Error) -> Trouble {
    if error.is_closed() {
        return Trouble::Connection;
    }
    let Some(code) = error.code() else {
        let is_io = error.source().and_then(|source| source.downcast_ref::<io::Error>()).is_some();
        // What is left of the errors without a code are values that cannot be converted.
        return if is_io { Trouble::Connection } else { Trouble::Statement };
    };
    let is_connection = code.code().starts_with("08")
        || [
            &SqlState::ADMIN_SHUTDOWN,
            &SqlState::CRASH_SHUTDOWN,
            &SqlState::CANNOT_CONNECT_NOW,
            &SqlState::TOO_MANY_CONNECTIONS,
            &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(&code);
    let is_collision = [
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::LOCK_NOT_AVAILABLE,
    ]
    .contains(&code);
    match (is_connection, is_collision) {
        (true, _) => Trouble::Connection,
        (_, true) => Trouble::Collision,
        _ => Trouble::Statement,
    }
}

/// The code of the functions of the schema for an owner that may no longer write.
pub(super) const FENCED: &str = "ANG01";

impl PgError {
    pub(super) fn is_fence(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code().is_some_and(|code| code.code() == FENCED))
    }

    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::Sql(error) => trouble(error),
            Self::Refused(_) | Self::Unreadable(_) => Trouble::Statement,
        }
    }

    pub(super) fn into_store_error(self, address: &PostgresAddress) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Unreadable(what) => StoreError::Failed { message: what.describe(address) },
            Self::Sql(error) => store_error(&error, address),
        }
    }
}

fn store_error(error: &tokio_postgres::Error, address: &PostgresAddress) -> StoreError {
    let refusal = error.as_db_error().and_then(|refused| {
        let seq = || refused.message().parse().unwrap_or_default();
        Some(match refused.code().code() {
            FENCED | "ANG02" => StoreError::LeaseLost,
            "ANG03" => StoreError::SESSION_NOT_FOUND,
            "ANG04" => StoreError::TURN_NOT_FOUND,
            "ANG05" => StoreError::TurnFinished,
            "ANG06" => StoreError::DuplicateEvent { seq: seq() },
            "ANG07" => StoreError::MissingEvent { seq: seq() },
            "23505" if matches!(refused.constraint(), Some("sessions_pkey" | "turns_pkey")) => {
                StoreError::Conflict
            }
            "54000" => StoreError::TooLarge {
                message: format!("cannot write to {address}: {}", refused.message()),
            },
            _ => return None,
        })
    });
    refusal.unwrap_or_else(|| StoreError::Failed { message: describe(error, address) })
}

/// Returns the message for people.
pub(super) fn describe(error: &tokio_postgres::Error, address: &PostgresAddress) -> String {
    let Some(refused) = error.as_db_error() else {
        let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        return format!(
            "cannot reach {address} ({error}{cause}); check that the server runs and that its \
             address in `fleet.store` is right"
        );
    };
    let message = refused.message();
    match refused.code() {
        &SqlState::DISK_FULL => format!(
            "cannot write to {address}: the disk of the server is full; free some space there and \
             try again (what is recorded already is safe)"
        ),
        &SqlState::READ_ONLY_SQL_TRANSACTION => format!(
            "cannot write to {address}: the server is read-only, perhaps a standby; \
             set `fleet.store` to the primary"
        ),
        &SqlState::INSUFFICIENT_PRIVILEGE => format!(
            "{address} refuses it ({message}); make the user of the address the owner of the database"
        ),
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => format!(
            "{address} refuses the user or the password ({message}); set ANGELIA_STORE_PASSWORD, \
             or PGPASSFILE to a password file"
        ),
        &SqlState::INVALID_CATALOG_NAME => {
            format!("{address}: {message}; create it on the server with `createdb`")
        }
        code => format!("{address}: {message} ({})", code.code()),
    }
}

pub(super) fn closed_error() -> StoreError {
    StoreError::Failed { message: "the store has been closed; start angelia again".to_owned() }
}
