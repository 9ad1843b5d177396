//! Conversions of small column values: times, numbers, and names of enum variants.

use std::borrow::Cow;

use angelia_core::{
    model::{
        MessagePart, Role, SessionSpec, ToolChoice, Trigger, TurnOrigin, TurnState, first_words,
    },
    ports::{RecordKind, RequestClaim, StoreError},
};
use jiff::{Timestamp, tz::TimeZone};
use uuid::Uuid;

use super::unreadable::Unreadable;

/// Returns the table of the records of a kind.
pub(super) fn table_of(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Session => "sessions",
        RecordKind::Turn => "turns",
        RecordKind::Approval => "approvals",
        RecordKind::Schedule => "schedules",
    }
}

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

/// Returns the enum variant that is written as `text`.
pub(super) fn parse_variant<T: Copy>(
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
    text: &str,
) -> Result<T, Unreadable> {
    all.iter()
        .copied()
        .find(|member| as_str(*member) == text)
        .ok_or_else(|| Unreadable(format!("unknown word `{text}`")))
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

pub(super) fn parse_tool_choice(text: Option<&str>) -> Result<ToolChoice, Unreadable> {
    match text {
        None => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") => Ok(ToolChoice::Required),
        Some(other) => match other.strip_prefix(NAMED_TOOL) {
            Some(name) => Ok(ToolChoice::Named(name.into())),
            None => Err(Unreadable(format!("unknown tool choice `{other}`"))),
        },
    }
}

pub(super) fn parse_origin(text: &str) -> Result<TurnOrigin, Unreadable> {
    parse_variant(&[TurnOrigin::Owner, TurnOrigin::Remote], TurnOrigin::as_str, text)
}

/// Returns the column value of an unfinished state.
pub(super) fn unfinished_state_text(state: &TurnState) -> Result<&'static str, StoreError> {
    match state {
        TurnState::Queued
        | TurnState::HandedOver
        | TurnState::Running
        | TurnState::AwaitingApproval
        | TurnState::AwaitingToolResult
        | TurnState::Parked { .. } => Ok(state.as_str()),
        TurnState::Finished { .. } => Err(StoreError::Failed {
            message: "a turn is finished by its event, not by its state".to_owned(),
        }),
    }
}

/// Returns when a turn is to be gone on with.
pub(super) fn resumes_at(state: &TurnState) -> Option<i64> {
    match state {
        TurnState::Parked { resumes_at } => Some(nanoseconds(*resumes_at)),
        // At once, by the next process.
        TurnState::HandedOver => Some(0),
        _ => None,
    }
}

/// Returns the unfinished state that is written as these two columns.
pub(super) fn parse_unfinished_state(
    text: &str,
    resumes_at: Option<i64>,
) -> Result<TurnState, Unreadable> {
    match text {
        "queued" if resumes_at.is_some() => Ok(TurnState::HandedOver),
        "queued" => Ok(TurnState::Queued),
        "running" => Ok(TurnState::Running),
        "awaiting_approval" => Ok(TurnState::AwaitingApproval),
        "awaiting_tool_result" => Ok(TurnState::AwaitingToolResult),
        "parked" => Ok(TurnState::Parked { resumes_at: timestamp(resumes_at.unwrap_or_default()) }),
        other => Err(Unreadable(format!("unknown state `{other}`"))),
    }
}

/// Returns the first words of the person in a conversation that the session starts with.
pub(super) fn history_words(spec: &SessionSpec) -> Option<String> {
    let of_user = spec.history.iter().filter(|message| message.role == Role::User);
    let mut contents = of_user.flat_map(|message| &message.parts).filter_map(|part| match part {
        MessagePart::Content(content) => Some(content),
        _ => None,
    });
    contents.find_map(|content| first_words(std::slice::from_ref(content)))
}

/// The greatest count of one turn: a sum over all turns must not overflow.
const MAX_COUNT: u64 = 1 << 50;

/// Returns the column of a number of tokens.
pub(super) fn token_count(tokens: u64) -> i64 {
    to_i64(tokens.min(MAX_COUNT))
}

/// Returns when a claim may be forgotten. It is kept for the window that its request asked for;
/// windows differ.
pub(super) fn forget_at(claim: &RequestClaim, made_at: i64) -> i64 {
    let window = made_at.saturating_sub(nanoseconds(claim.since));
    made_at.saturating_add(window)
}

/// Returns the trigger of a schedule from its columns.
pub(super) fn parse_trigger(spec: &str, zone: Option<&str>) -> Result<Trigger, Unreadable> {
    let zone = zone.map_or(Ok(TimeZone::UTC), TimeZone::get);
    let zone = zone.map_err(|error| Unreadable(format!("a time zone: {error}")))?;
    Trigger::parse(spec, &zone).map_err(|error| Unreadable(format!("a schedule: {error}")))
}

/// Returns the time in an id that sorts by age.
pub(super) fn time_of_id(id: Uuid) -> Option<i64> {
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let seconds = i64::try_from(seconds).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(nanoseconds))
}
