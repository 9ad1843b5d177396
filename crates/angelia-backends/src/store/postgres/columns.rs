//! Values of columns: text is bytes, because Postgres text refuses NUL.

use angelia_core::model::{SessionId, TurnId};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) use super::super::values::*;
use super::error::PgError;
use crate::store::unreadable::Unreadable;

/// Returns the bytes of a text as a parameter.
pub(super) fn bytes(text: impl AsRef<str>) -> Vec<u8> {
    text.as_ref().as_bytes().to_vec()
}

pub(super) fn optional_bytes(text: Option<impl AsRef<str>>) -> Option<Vec<u8>> {
    text.map(bytes)
}

pub(super) fn text(row: &Row, column: usize) -> Result<&str, PgError> {
    as_text(row.try_get(column)?)
}

pub(super) fn optional_text(row: &Row, column: usize) -> Result<Option<&str>, PgError> {
    row.try_get::<_, Option<&[u8]>>(column)?.map(as_text).transpose()
}

fn as_text(bytes: &[u8]) -> Result<&str, PgError> {
    std::str::from_utf8(bytes).map_err(|error| Unreadable(format!("a text: {error}")).into())
}

/// A word of ours, which is not in bytes.
pub(super) fn word(row: &Row, column: usize) -> Result<&str, PgError> {
    Ok(row.try_get(column)?)
}

pub(super) fn uuid(row: &Row, column: usize) -> Result<Uuid, PgError> {
    Ok(row.try_get(column)?)
}

pub(super) fn session_id(row: &Row, column: usize) -> Result<SessionId, PgError> {
    uuid(row, column).map(SessionId::from_uuid)
}

pub(super) fn turn_id(row: &Row, column: usize) -> Result<TurnId, PgError> {
    uuid(row, column).map(TurnId::from_uuid)
}

pub(super) fn time(row: &Row, column: usize) -> Result<jiff::Timestamp, PgError> {
    Ok(timestamp(row.try_get(column)?))
}

pub(super) fn optional_time(row: &Row, column: usize) -> Result<Option<jiff::Timestamp>, PgError> {
    Ok(row.try_get::<_, Option<i64>>(column)?.map(timestamp))
}

pub(super) fn number(row: &Row, column: usize) -> Result<u64, PgError> {
    Ok(to_u64(row.try_get(column)?))
}
