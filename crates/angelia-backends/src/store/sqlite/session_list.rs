//! Sessions as lists show them, and records by the start of their ids.

use angelia_core::{
    model::{ExternalName, IdPrefix, SessionId, SessionSummary, first_words},
    ports::{Page, RecordKind, SessionQuery},
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use uuid::Uuid;

use super::{
    columns::{to_i64, uuid},
    content_json,
    error::SqliteError,
    read::{SESSION_COLUMNS, column_text, page_bound, query_all, session_record},
};

type ReadResult<T> = Result<T, SqliteError>;

pub(super) fn list(db: &Connection, query: &SessionQuery) -> ReadResult<Vec<SessionSummary>> {
    match query {
        SessionQuery::One(id) => select(db, "WHERE s.id = ?1", [id.as_uuid().as_bytes()]),
        SessionQuery::ByCreation(page) => {
            let rest = "WHERE s.id < ?1 ORDER BY s.id DESC LIMIT ?2";
            select(db, rest, params![page_bound(*page).as_bytes(), to_i64(page.limit)])
        }
        SessionQuery::ByUse { cwd: None, page } => {
            let rest = "WHERE (s.updated_at, s.id) < (?1, ?2)
                ORDER BY s.updated_at DESC, s.id DESC LIMIT ?3";
            let (time, id) = place_of(db, *page)?;
            select(db, rest, params![time, id.as_bytes(), to_i64(page.limit)])
        }
        SessionQuery::ByUse { cwd: Some(cwd), page } => {
            let rest = "WHERE s.cwd = ?4 AND (s.updated_at, s.id) < (?1, ?2)
                ORDER BY s.updated_at DESC, s.id DESC LIMIT ?3";
            let (time, id) = place_of(db, *page)?;
            select(db, rest, params![time, id.as_bytes(), to_i64(page.limit), cwd.to_str()])
        }
    }
}

/// Returns the time and id that a page by use starts behind. If its session is gone, it has been
/// used as long ago as it was created.
fn place_of(db: &Connection, page: Page) -> ReadResult<(i64, Uuid)> {
    let Some(before) = page.before else {
        return Ok((i64::MAX, Uuid::max()));
    };
    let time = db
        .prepare_cached("SELECT updated_at FROM sessions WHERE id = ?1")?
        .query_row([before.as_bytes()], |row| row.get(0))
        .optional()?;
    let created = || {
        let (seconds, nanoseconds) = before.get_timestamp()?.to_unix();
        let seconds = i64::try_from(seconds).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(nanoseconds))
    };
    Ok((time.or_else(created).unwrap_or(i64::MAX), before))
}

fn select(db: &Connection, rest: &str, parameters: impl Params) -> ReadResult<Vec<SessionSummary>> {
    let owner = ExternalName::OWNER_SCOPE;
    // The status of a finished turn is in the event that ended it.
    let sql = format!(
        "SELECT {SESSION_COLUMNS}, s.first_words,
            (SELECT n.name FROM external_names n
                WHERE n.session_id = s.id AND n.scope = '{owner}' LIMIT 1),
            (SELECT coalesce(iif(json_valid(e.body), json_extract(e.body, '$.status'), NULL), t.state)
                FROM turns t LEFT JOIN events e ON e.turn_id = t.id AND e.seq = t.finished_seq
                WHERE t.session_id = s.id ORDER BY t.number DESC LIMIT 1)
        FROM sessions s JOIN specs p ON p.session_id = s.id {rest}"
    );
    let mut found = query_all(db, &sql, parameters, summary)?;
    for summary in found.iter_mut().filter(|one| one.first_words.is_none()) {
        summary.first_words = words_of_first_turn(db, summary.record.id)?.map(Into::into);
    }
    Ok(found)
}

fn summary(row: &Row<'_>) -> ReadResult<SessionSummary> {
    Ok(SessionSummary {
        record: session_record(row)?,
        first_words: row.get(10)?,
        name: row.get(11)?,
        status: row.get(12)?,
    })
}

/// Reads the first words of a session that was recorded before they were kept.
fn words_of_first_turn(db: &Connection, session: SessionId) -> ReadResult<Option<String>> {
    let sql = "SELECT i.body FROM turns t JOIN inputs i ON i.turn_id = t.id
        WHERE t.session_id = ?1 ORDER BY t.number LIMIT 1";
    let inputs = query_all(db, sql, [session.as_uuid().as_bytes()], |row| {
        content_json::decode(column_text(row, 0)?)
    })?;
    Ok(inputs.first().and_then(|input| first_words(input)))
}

pub(super) fn find_ids(
    db: &Connection,
    kind: RecordKind,
    prefix: IdPrefix,
    limit: usize,
) -> ReadResult<Vec<Uuid>> {
    let table = match kind {
        RecordKind::Session => "sessions",
        RecordKind::Turn => "turns",
        RecordKind::Approval => "approvals",
        RecordKind::Schedule => "schedules",
    };
    let sql = format!("SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3");
    let (first, last) = prefix.range();
    let parameters = params![first.as_bytes(), last.as_bytes(), to_i64(limit)];
    query_all(db, &sql, parameters, |row| Ok(uuid(row, 0)?))
}
