//! Identifiers in columns, next to the values that every store writes in the same way.

use angelia_core::model::{SessionId, TurnId};
use rusqlite::Row;
use uuid::Uuid;

pub(super) use super::super::values::*;

pub(super) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

pub(super) fn session_id(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    uuid(row, column).map(SessionId::from_uuid)
}

pub(super) fn turn_id(row: &Row<'_>, column: usize) -> rusqlite::Result<TurnId> {
    uuid(row, column).map(TurnId::from_uuid)
}
