//! Finds the session, turn, approval or schedule that a person means: by a full id, by `last`, by a
//! session's name, or by the start of an id.

use std::fmt::Write as _;

use angelia_core::{
    model::{ApprovalId, IdPrefix, ScheduleId, SessionId, TurnId},
    ports::{ApprovalFilter, Page},
};
use angelia_frontends::http::resources::{ApprovalResource, SessionResource};

use crate::{
    cli::{error::CommandError, print::show_controls},
    records::{PAGE_SIZE, Records},
};

/// The word for the most recently used session, the newest turn, or the newest pending approval.
pub(crate) const LAST: &str = "last";

/// Maximum number of matching records shown.
const MAX_CANDIDATES: usize = 8;

/// A session's name must not look like this many hexadecimal digits, because short ids are this
/// long.
const ID_LIKE_DIGITS: usize = 8;

/// Returns the session that the text refers to.
pub(crate) async fn session(
    records: &Records,
    text: &str,
) -> Result<SessionResource, CommandError> {
    if let Ok(id) = text.parse() {
        return records.session(id).await;
    }
    find_session(records, text).await?.ok_or_else(|| unknown("session", text))
}

/// Returns the id of the session that the text refers to. A full id is not looked up.
pub(crate) async fn session_id(records: &Records, text: &str) -> Result<SessionId, CommandError> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(session(records, text).await?.id),
    }
}

/// Returns the session that the text refers to, or `None` if no session matches.
pub(crate) async fn find_session(
    records: &Records,
    text: &str,
) -> Result<Option<SessionResource>, CommandError> {
    if let Ok(id) = text.parse() {
        return records.find_session(id).await;
    }
    if text == LAST {
        let mut used = records.sessions_by_use(None, Page::first(1)).await?;
        return used.pop().map(Some).ok_or_else(|| none_yet("session"));
    }
    if let Some(named) = records.session_named(text).await? {
        return Ok(Some(named));
    }
    if IdPrefix::parse(text).is_none() {
        return Ok(None);
    }
    let found = records.sessions_starting(text, MAX_CANDIDATES + 1).await?;
    only_one("sessions", text, found, |session| {
        let short = session.short_id.clone().unwrap_or_else(|| session.id.to_string());
        (short, session_words(session))
    })
}

/// Returns the turn that the text refers to. A session's name stands for its newest turn.
pub(crate) async fn turn(records: &Records, text: &str) -> Result<TurnId, CommandError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let newest = async |session: Option<SessionId>| {
        let newest = records.turns(session, Page::first(1)).await?.pop();
        newest.map(|turn| turn.id).ok_or_else(|| none_yet("turn"))
    };
    if text == LAST {
        return newest(None).await;
    }
    if let Some(named) = records.session_named(text).await? {
        return newest(Some(named.id)).await;
    }
    let found = match IdPrefix::parse(text) {
        Some(_) => records.turns_starting(text, MAX_CANDIDATES + 1).await?,
        None => Vec::new(),
    };
    let found = only_one("turns", text, found, |turn| {
        (turn.short_id.clone().unwrap_or_else(|| turn.id.to_string()), turn.status.clone())
    })?;
    found.map(|turn| turn.id).ok_or_else(|| unknown("turn", text))
}

/// Returns the approval that the text refers to. A session's name stands for its pending approval.
pub(crate) async fn approval(records: &Records, text: &str) -> Result<ApprovalId, CommandError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let pending =
        async |limit| records.approvals(ApprovalFilter::Pending, Page::first(limit)).await;
    if text == LAST {
        let newest = pending(1).await?.pop().ok_or_else(none_pending)?;
        return Ok(newest.id);
    }
    let found = if let Some(named) = records.session_named(text).await? {
        let mut waiting = pending(PAGE_SIZE).await?;
        waiting.retain(|approval| approval.session_id == named.id);
        if waiting.is_empty() {
            return Err(none_pending());
        }
        waiting
    } else if IdPrefix::parse(text).is_some() {
        records.approvals_starting(text, MAX_CANDIDATES + 1).await?
    } else {
        Vec::new()
    };
    let found = only_one("approvals", text, found, |approval: &ApprovalResource| {
        let short = approval.short_id.clone().unwrap_or_else(|| approval.id.to_string());
        (short, approval.title.clone())
    })?;
    found.map(|approval| approval.id).ok_or_else(|| unknown("approval", text))
}

/// Returns the schedule that the text refers to. `last` is the newest one.
pub(crate) async fn schedule(records: &Records, text: &str) -> Result<ScheduleId, CommandError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    if text == LAST {
        let newest = records.schedules().await?.pop();
        return newest.map(|schedule| schedule.id).ok_or_else(|| {
            CommandError::usage("there is no schedule yet")
                .with_hint("`angelia schedule add` makes one")
        });
    }
    let found = match IdPrefix::parse(text) {
        Some(_) => records.schedules_starting(text, MAX_CANDIDATES + 1).await?,
        None => Vec::new(),
    };
    let found = only_one("schedules", text, found, |schedule| {
        let short = schedule.short_id.clone().unwrap_or_else(|| schedule.id.to_string());
        (short, format!("{}  {}", schedule.spec, schedule.prompt))
    })?;
    found.map(|schedule| schedule.id).ok_or_else(|| {
        CommandError::usage(format!("no schedule has an id that starts with `{text}`"))
            .with_hint("`angelia schedule list` prints them")
    })
}

/// Checks that a new session may have this name. A mistyped id, or an unset variable in a script,
/// must not start a session.
pub(crate) fn check_new_name(name: &str) -> Result<(), CommandError> {
    if name.trim().is_empty() {
        return Err(CommandError::usage("the name of the session is empty")
            .with_hint("write one, or leave the option out for a session without a name"));
    }
    if name.contains(char::is_control) {
        return Err(CommandError::usage(format!(
            "a session's name cannot have line breaks or control characters: {name:?}"
        ))
        .with_hint("choose another name"));
    }
    let looks_like_id = name.chars().any(|char| char.is_ascii_digit())
        && IdPrefix::parse(name).is_some_and(|prefix| prefix.digits() >= ID_LIKE_DIGITS);
    if !looks_like_id {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "no session has the id `{name}`, and a name cannot look like one"
    ))
    .with_hint("`angelia sessions list` prints the ids; choose another name for a new session"))
}

/// Returns the record if exactly one matches.
fn only_one<T>(
    kind: &str,
    text: &str,
    mut found: Vec<T>,
    describe: impl Fn(&T) -> (String, String),
) -> Result<Option<T>, CommandError> {
    if found.len() <= 1 {
        return Ok(found.pop());
    }
    let more = found.len() > MAX_CANDIDATES;
    let count = if more { format!("more than {MAX_CANDIDATES}") } else { found.len().to_string() };
    let mut message = format!("`{text}` fits {count} {kind}:");
    for candidate in found.iter().take(MAX_CANDIDATES) {
        let (id, words) = describe(candidate);
        let line = words.lines().next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _infallible = write!(message, "\n  {id}  {}", show_controls(line));
    }
    Err(CommandError::usage(message).with_hint("write more of the id"))
}

fn session_words(session: &SessionResource) -> String {
    let words = [&session.name, &session.title, &session.first_words];
    words.into_iter().flatten().next().cloned().unwrap_or_default()
}

fn unknown(kind: &str, text: &str) -> CommandError {
    let name = if kind == "session" { "this name, or " } else { "" };
    CommandError::usage(format!("no {kind} has {name}an id that starts with `{text}`"))
        .with_hint(format!("`angelia {kind}s list` prints them"))
}

fn none_yet(kind: &str) -> CommandError {
    CommandError::usage(format!("there is no {kind} yet")).with_hint("`angelia run` begins one")
}

fn none_pending() -> CommandError {
    CommandError::usage("no approval waits for a decision")
        .with_hint("`angelia approvals list --all` prints those that have been decided")
}
