//! The statements that read, and the conversion of rows to records.

use angelia_core::{
    model::{
        ExternalName, NativeSessionId, Seq, SessionId, SessionRecord, TurnEvent, TurnId,
        TurnOptions, TurnRecord, TurnState, TurnTask,
    },
    ports::{Page, TurnFilter},
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use uuid::Uuid;

use super::{
    columns::{self, nanoseconds, session_id, timestamp, to_i64, to_u64, turn_id},
    content_json,
    error::SqliteError,
    event_json, outcome_json, spec_json,
};
use crate::{owners::OwnerRegistry, store::unreadable::Unreadable};

type ReadResult<T> = Result<T, SqliteError>;

/// The columns that [`session_record`] reads.
pub(super) const SESSION_COLUMNS: &str = "s.id, s.revision, s.created_at, s.updated_at,
        s.title, s.native, s.forked_from, p.body, s.forked_after, s.source";

/// Reviews of sessions are sessions that no list shows.
pub(super) const IS_LISTED: &str = "coalesce(s.source, '') NOT LIKE 'review:%'";

fn select_session(rest: &str) -> String {
    format!("SELECT {SESSION_COLUMNS} FROM sessions s JOIN specs p ON p.session_id = s.id {rest}")
}

const SELECT_TURN: &str =
    "SELECT t.id, t.session_id, t.created_at, t.state, t.origin, t.can_ask, i.body,
        e.at, e.body, l.owner, t.can_park, t.caller, t.max_cost_usd, t.resumes_at,
        t.charged_to, t.tool_choice
    FROM turns t JOIN inputs i ON i.turn_id = t.id
    JOIN leases l ON l.session_id = t.session_id
    LEFT JOIN events e ON e.turn_id = t.id AND e.seq = t.finished_seq";

pub(super) fn session(db: &Connection, id: SessionId) -> ReadResult<Option<SessionRecord>> {
    let sql = select_session("WHERE s.id = ?1");
    let found = query_all(db, &sql, [id.as_uuid().as_bytes()], session_record)?;
    Ok(found.into_iter().next())
}

pub(super) fn sessions(db: &Connection, page: Page) -> ReadResult<Vec<SessionRecord>> {
    let sql =
        select_session(&format!("WHERE s.id < ?1 AND {IS_LISTED} ORDER BY s.id DESC LIMIT ?2"));
    let before = page_bound(page);
    let parameters = params![before.as_bytes(), to_i64(page.limit)];
    query_all(db, &sql, parameters, session_record)
}

pub(super) fn stale_sessions(db: &Connection, before: Timestamp) -> ReadResult<Vec<SessionRecord>> {
    let sql = select_session(
        "WHERE s.updated_at < ?1 AND NOT EXISTS (
            SELECT 1 FROM turns t WHERE t.session_id = s.id AND t.finished_seq IS NULL)
         ORDER BY s.id",
    );
    query_all(db, &sql, [nanoseconds(before)], session_record)
}

pub(super) fn session_by_name(
    db: &Connection,
    name: &ExternalName,
) -> ReadResult<Option<SessionId>> {
    let found = db
        .prepare_cached("SELECT session_id FROM external_names WHERE scope = ?1 AND name = ?2")?
        .query_row(params![name.scope, name.name], |row| session_id(row, 0))
        .optional()?;
    Ok(found)
}

pub(super) fn turn(db: &Connection, id: TurnId) -> ReadResult<Option<TurnRecord>> {
    let sql = format!("{SELECT_TURN} WHERE t.id = ?1");
    let found = query_all(db, &sql, [id.as_uuid().as_bytes()], turn_record)?;
    Ok(found.into_iter().next())
}

pub(super) fn turns(
    db: &Connection,
    session: Option<SessionId>,
    page: Page,
) -> ReadResult<Vec<TurnRecord>> {
    let before = match page.before {
        Some(turn) => number_of(db, turn)?,
        None => i64::MAX,
    };
    let limit = to_i64(page.limit);
    match session {
        None => {
            let sql = format!(
                "{SELECT_TURN} JOIN sessions s ON s.id = t.session_id
                 WHERE t.number < ?1 AND {IS_LISTED} ORDER BY t.number DESC LIMIT ?2"
            );
            query_all(db, &sql, params![before, limit], turn_record)
        }
        Some(session) => {
            let sql = format!(
                "{SELECT_TURN} WHERE t.session_id = ?3 AND t.number < ?1
                 ORDER BY t.number DESC LIMIT ?2"
            );
            let session = session.as_uuid();
            query_all(db, &sql, params![before, limit, session.as_bytes()], turn_record)
        }
    }
}

pub(super) fn find_turns(
    db: &Connection,
    filter: &TurnFilter,
    page: Page,
) -> ReadResult<Vec<TurnRecord>> {
    let before = match page.before {
        Some(turn) => number_of(db, turn)?,
        None => i64::MAX,
    };
    let mut conditions = String::from("t.number < ?1 AND t.created_at >= ?3");
    if filter.session.is_some() {
        conditions.push_str(" AND t.session_id = ?4");
    } else {
        conditions.push_str(" AND ?4 IS NULL");
    }
    if filter.is_unfinished() {
        conditions.push_str(" AND t.finished_seq IS NULL");
    }
    conditions.push_str(if filter.statuses.is_empty() {
        " AND ?5 IS NOT NULL"
    } else {
        // The end of a turn is only in its event.
        " AND CASE t.state WHEN 'finished' THEN e.body ->> '$.status' ELSE t.state END
            IN (SELECT value FROM json_each(?5))"
    });
    let sql = format!("{SELECT_TURN} WHERE {conditions} ORDER BY t.number DESC LIMIT ?2");
    let parameters = params![
        before,
        to_i64(page.limit),
        filter.since.map_or(i64::MIN, nanoseconds),
        filter.session.as_ref().map(|session| session.as_uuid().into_bytes()),
        serde_json::to_string(&filter.statuses).map_err(Unreadable::from)?,
    ];
    query_all(db, &sql, parameters, turn_record)
}

/// Returns the number that orders a turn. If the turn is gone, a page that was to start behind it
/// starts behind its neighbour by age.
fn number_of(db: &Connection, turn: Uuid) -> ReadResult<i64> {
    let sql = "SELECT coalesce((SELECT number FROM turns WHERE id = ?1),
        (SELECT number + 1 FROM turns WHERE id < ?1 ORDER BY id DESC LIMIT 1), 0)";
    Ok(db.prepare_cached(sql)?.query_row([turn.as_bytes()], |row| row.get(0))?)
}

pub(super) fn lost_turns(db: &Connection, owners: &OwnerRegistry) -> ReadResult<Vec<TurnRecord>> {
    let sql = format!(
        "{SELECT_TURN} WHERE t.finished_seq IS NULL AND t.resumes_at IS NULL ORDER BY t.number"
    );
    let mut unfinished =
        query_all(db, &sql, [], |row| Ok((row.get::<_, Option<String>>(9)?, turn_record(row)?)))?;
    unfinished.retain(|(owner, _)| owner.as_deref().is_none_or(|id| !owners.is_alive(id)));
    Ok(unfinished.into_iter().map(|(_, turn)| turn).collect())
}

/// The condition of a turn that a process goes on with: a parked one, or a queued one that was handed
/// over.
const RESUMABLE: &str = "t.finished_seq IS NULL AND t.resumes_at IS NOT NULL";

pub(super) fn resumable_turns(
    db: &Connection,
    session: Option<SessionId>,
) -> ReadResult<Vec<TurnRecord>> {
    match session {
        None => {
            let sql = format!("{SELECT_TURN} WHERE {RESUMABLE} ORDER BY t.number");
            query_all(db, &sql, [], turn_record)
        }
        Some(session) => {
            let sql =
                format!("{SELECT_TURN} WHERE {RESUMABLE} AND t.session_id = ?1 ORDER BY t.number");
            query_all(db, &sql, [session.as_uuid().as_bytes()], turn_record)
        }
    }
}

pub(super) fn replay(
    db: &Connection,
    turn: TurnId,
    after: Seq,
    limit: usize,
) -> ReadResult<Vec<TurnEvent>> {
    let sql = "SELECT t.session_id, e.seq, e.at, e.format, e.kind, e.body
        FROM events e JOIN turns t ON t.id = e.turn_id
        WHERE e.turn_id = ?1 AND e.seq > ?2 ORDER BY e.seq LIMIT ?3";
    let id = turn.as_uuid();
    let parameters = params![id.as_bytes(), to_i64(after), to_i64(limit)];
    query_all(db, sql, parameters, |row| {
        Ok(TurnEvent {
            turn,
            session: session_id(row, 0)?,
            seq: to_u64(row.get(1)?),
            at: timestamp(row.get(2)?),
            kind: event_json::decode(row.get(3)?, column_text(row, 4)?, column_text(row, 5)?),
        })
    })
}

/// Runs a query and converts all its rows.
pub(super) fn query_all<T>(
    db: &Connection,
    sql: &str,
    parameters: impl Params,
    record: impl Fn(&Row<'_>) -> ReadResult<T>,
) -> ReadResult<Vec<T>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(row)?);
    }
    Ok(records)
}

pub(super) fn session_record(row: &Row<'_>) -> ReadResult<SessionRecord> {
    let forked_from: Option<[u8; 16]> = row.get(6)?;
    let forked_after: Option<[u8; 16]> = row.get(8)?;
    Ok(SessionRecord {
        id: session_id(row, 0)?,
        revision: to_u64(row.get(1)?),
        created_at: timestamp(row.get(2)?),
        updated_at: timestamp(row.get(3)?),
        title: row.get(4)?,
        source: row.get::<_, Option<String>>(9)?.and_then(|source| source.parse().ok()),
        native: row.get::<_, Option<String>>(5)?.map(NativeSessionId::new),
        forked_from: forked_from.map(|id| SessionId::from_uuid(Uuid::from_bytes(id))),
        forked_after: forked_after.map(|id| TurnId::from_uuid(Uuid::from_bytes(id))),
        spec: spec_json::decode(column_text(row, 7)?)?,
    })
}

fn turn_record(row: &Row<'_>) -> ReadResult<TurnRecord> {
    let state = match column_text(row, 3)? {
        "finished" => TurnState::Finished {
            at: timestamp(row.get(7)?),
            outcome: outcome_json::decode(column_text(row, 8)?),
        },
        unfinished => columns::parse_unfinished_state(unfinished, row.get(13)?)?,
    };
    Ok(TurnRecord {
        id: turn_id(row, 0)?,
        session: session_id(row, 1)?,
        input: content_json::decode(column_text(row, 6)?)?,
        options: TurnOptions {
            origin: columns::parse_origin(column_text(row, 4)?)?,
            can_ask: row.get(5)?,
            can_park: row.get(10)?,
            caller: row.get(11)?,
            charged_to: row.get(14)?,
            max_cost_usd: row.get(12)?,
            tool_choice: columns::parse_tool_choice(row.get::<_, Option<String>>(15)?.as_deref())?,
            task: TurnTask::Answer,
        },
        created_at: timestamp(row.get(2)?),
        state,
    })
}

pub(super) fn column_text<'a>(row: &'a Row<'_>, column: usize) -> ReadResult<&'a str> {
    let value = row.get_ref(column)?;
    let text = value.as_str();
    Ok(text.map_err(|error| Unreadable(format!("column {column}: {error}")))?)
}

/// Returns the id that a page stops before. Without one it is the greatest UUID, because every id
/// sorts before that.
pub(super) fn page_bound(page: Page) -> Uuid {
    page.before.unwrap_or(Uuid::max())
}
