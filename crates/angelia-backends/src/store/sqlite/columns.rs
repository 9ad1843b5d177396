//! Conversions of small column values: identifiers, times, numbers, and names of enum variants.

use std::borrow::Cow;

use angelia_core::model::{SessionId, ToolChoice, TurnId, TurnOrigin};
use jiff::Timestamp;
use rusqlite::Row;
use uuid::Uuid;

use super::error::SqliteError;

pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

pub(super) fn timestamp(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Converts an unsigned number. Our own counters never come near the maximum; a limit given by a
/// caller may be any number.
pub(super) fn to_i64(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

pub(super) fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

pub(super) fn session_id(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    uuid(row, column).map(SessionId::from_uuid)
}

pub(super) fn turn_id(row: &Row<'_>, column: usize) -> rusqlite::Result<TurnId> {
    uuid(row, column).map(TurnId::from_uuid)
}

/// Returns the enum variant that is written as `text`.
pub(super) fn parse_variant<T: Copy>(
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
    text: &str,
) -> Result<T, SqliteError> {
    all.iter()
        .copied()
        .find(|member| as_str(*member) == text)
        .ok_or_else(|| SqliteError::Unreadable(format!("unknown word `{text}`")))
}

const NAMED_TOOL: &str = "tool:";

/// Returns the column of a choice; `None` stands for [`ToolChoice::Auto`].
pub(super) fn tool_choice_text(choice: &ToolChoice) -> Option<Cow<'static, str>> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) => Some(format!("{NAMED_TOOL}{name}").into()),
    }
}

pub(super) fn parse_tool_choice(text: Option<&str>) -> Result<ToolChoice, SqliteError> {
    match text {
        None => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") => Ok(ToolChoice::Required),
        Some(other) => match other.strip_prefix(NAMED_TOOL) {
            Some(name) => Ok(ToolChoice::Named(name.into())),
            None => Err(SqliteError::Unreadable(format!("unknown tool choice `{other}`"))),
        },
    }
}

pub(super) fn parse_origin(text: &str) -> Result<TurnOrigin, SqliteError> {
    parse_variant(&[TurnOrigin::Owner, TurnOrigin::Remote], TurnOrigin::as_str, text)
}
