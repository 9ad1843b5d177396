//! The statements that read sessions, turns and events, and the conversion of rows to records.

use angelia_core::{
    model::{
        NativeSessionId, Seq, SessionId, SessionRecord, TextChannel, TurnEvent, TurnId,
        TurnOptions, TurnRecord, TurnState, TurnTask,
    },
    ports::{OpenText, Page, StoreError, TurnFilter},
};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    columns::{
        nanoseconds, number, optional_text, parse_origin, parse_tool_choice,
        parse_unfinished_state, parse_variant, session_id, text, time, to_i64, turn_id, word,
    },
    error::PgError,
    owner_row::{Machine, OwnerState, owner_columns},
    readers::Readers,
};
use crate::{
    owners::OwnerRegistry,
    store::{content_json, event_json, outcome_json, spec_json, unreadable::Unreadable},
};

type ReadResult<T> = Result<T, StoreError>;

/// The columns that [`session_record`] reads.
pub(super) const SESSION_COLUMNS: &str = "s.id, s.revision, s.created_at, s.updated_at,
    s.title, s.native, s.forked_from, p.body, s.forked_after, s.source";

/// Reviews of sessions are sessions that no list shows.
pub(super) const IS_LISTED: &str =
    "substring(coalesce(s.source, ''::bytea) from 1 for 7) <> 'review:'::bytea";

fn select_session(rest: &str) -> String {
    format!("SELECT {SESSION_COLUMNS} FROM sessions s JOIN specs p ON p.session_id = s.id {rest}")
}

/// The columns that [`turn_record`] reads, and their tables.
const TURN_COLUMNS: &str = "t.id, t.session_id, t.created_at, t.state, t.origin, t.can_ask, i.body,
    e.at, e.body, t.can_park, t.caller, t.max_cost_usd, t.resumes_at, t.charged_to, t.tool_choice";
const TURN_TABLES: &str = "turns t JOIN inputs i ON i.turn_id = t.id
    LEFT JOIN events e ON e.turn_id = t.id AND e.seq = t.finished_seq";

fn select_turn(rest: &str) -> String {
    format!("SELECT {TURN_COLUMNS} FROM {TURN_TABLES} {rest}")
}

pub(super) async fn session(db: &Readers, id: SessionId) -> ReadResult<Option<SessionRecord>> {
    let sql = select_session("WHERE s.id = $1");
    let found = db.read(&sql, &[&id.as_uuid()], session_record).await?;
    Ok(found.into_iter().next())
}

pub(super) async fn sessions(db: &Readers, page: Page) -> ReadResult<Vec<SessionRecord>> {
    let sql =
        select_session(&format!("WHERE s.id < $1 AND {IS_LISTED} ORDER BY s.id DESC LIMIT $2"));
    db.read(&sql, &[&page_bound(page), &to_i64(page.limit)], session_record).await
}

pub(super) async fn stale_sessions(
    db: &Readers,
    before: Timestamp,
) -> ReadResult<Vec<SessionRecord>> {
    let sql = select_session(
        "WHERE s.updated_at < $1 AND NOT EXISTS (
            SELECT 1 FROM turns t WHERE t.session_id = s.id AND t.finished_seq IS NULL)
         ORDER BY s.id",
    );
    db.read(&sql, &[&nanoseconds(before)], session_record).await
}

pub(super) async fn turn(db: &Readers, id: TurnId) -> ReadResult<Option<TurnRecord>> {
    let found = db.read(&select_turn("WHERE t.id = $1"), &[&id.as_uuid()], turn_record).await?;
    Ok(found.into_iter().next())
}

/// SQL for the number that a page `$1` stops before. If its turn is gone, the page starts behind the
/// neighbour by age.
const NUMBER_BEFORE: &str = "CASE WHEN $1::uuid IS NULL THEN 9223372036854775807 ELSE
    coalesce((SELECT number FROM turns WHERE id = $1),
        (SELECT number + 1 FROM turns WHERE id < $1 ORDER BY id DESC LIMIT 1), 0) END";

pub(super) async fn turns(
    db: &Readers,
    session: Option<SessionId>,
    page: Page,
) -> ReadResult<Vec<TurnRecord>> {
    let limit = to_i64(page.limit);
    match session {
        None => {
            let sql = select_turn(&format!(
                "JOIN sessions s ON s.id = t.session_id
                 WHERE t.number < {NUMBER_BEFORE} AND {IS_LISTED} ORDER BY t.number DESC LIMIT $2"
            ));
            db.read(&sql, &[&page.before, &limit], turn_record).await
        }
        Some(session) => {
            let sql = select_turn(&format!(
                "WHERE t.session_id = $3 AND t.number < {NUMBER_BEFORE}
                 ORDER BY t.number DESC LIMIT $2"
            ));
            db.read(&sql, &[&page.before, &limit, &session.as_uuid()], turn_record).await
        }
    }
}

pub(super) async fn find_turns(
    db: &Readers,
    filter: &TurnFilter,
    page: Page,
) -> ReadResult<Vec<TurnRecord>> {
    let unfinished = if filter.is_unfinished() { "AND t.finished_seq IS NULL" } else { "" };
    let sql = select_turn(&format!(
        "WHERE t.number < {NUMBER_BEFORE} AND t.created_at >= $3
            AND ($4::uuid IS NULL OR t.session_id = $4)
            AND (cardinality($5::text[]) = 0 OR coalesce(t.status, t.state) = ANY ($5))
            {unfinished}
         ORDER BY t.number DESC LIMIT $2"
    ));
    let since = filter.since.map_or(i64::MIN, nanoseconds);
    let session = filter.session.map(SessionId::as_uuid);
    // Words of ours have no NUL, and nothing has a state that contains one.
    let words: Vec<&str> =
        filter.statuses.iter().map(|word| &**word).filter(|word| !word.contains('\0')).collect();
    if words.is_empty() && !filter.statuses.is_empty() {
        return Ok(Vec::new());
    }
    let limit = to_i64(page.limit);
    db.read(&sql, &[&page.before, &limit, &since, &session, &words], turn_record).await
}

pub(super) async fn lost_turns(
    db: &Readers,
    machine: &Machine,
    registry: &OwnerRegistry,
) -> ReadResult<Vec<TurnRecord>> {
    let sql = format!(
        "SELECT {TURN_COLUMNS}, l.owner, {} FROM {TURN_TABLES}
         JOIN leases l ON l.session_id = t.session_id LEFT JOIN owners o ON o.id = l.owner
         WHERE t.finished_seq IS NULL AND t.resumes_at IS NULL ORDER BY t.number",
        owner_columns()
    );
    let unfinished = db.read(&sql, &[], |row| {
        let owner: Option<String> = row.try_get(15)?;
        let state = OwnerState::read(row, 16)?;
        let is_alive = owner.is_some_and(|id| state.is_alive(&id, machine, registry));
        (!is_alive).then(|| turn_record(row)).transpose()
    });
    Ok(unfinished.await?.into_iter().flatten().collect())
}

pub(super) async fn resumable_turns(
    db: &Readers,
    session: Option<SessionId>,
) -> ReadResult<Vec<TurnRecord>> {
    let sql = select_turn(
        "WHERE t.finished_seq IS NULL AND t.resumes_at IS NOT NULL
            AND ($1::uuid IS NULL OR t.session_id = $1) ORDER BY t.number",
    );
    db.read(&sql, &[&session.map(SessionId::as_uuid)], turn_record).await
}

pub(super) async fn replay(
    db: &Readers,
    turn: TurnId,
    after: Seq,
    limit: usize,
) -> ReadResult<Vec<TurnEvent>> {
    let sql = "SELECT t.session_id, e.seq, e.at, e.format, e.kind, e.body
        FROM events e JOIN turns t ON t.id = e.turn_id
        WHERE e.turn_id = $1 AND e.seq > $2 ORDER BY e.seq LIMIT $3";
    let record = |row: &Row| {
        let format = i64::from(row.try_get::<_, i16>(3)?);
        Ok(TurnEvent {
            turn,
            session: session_id(row, 0)?,
            seq: number(row, 1)?,
            at: time(row, 2)?,
            kind: event_json::decode(format, word(row, 4)?, text(row, 5)?),
        })
    };
    db.read(sql, &[&turn.as_uuid(), &to_i64(after), &to_i64(limit)], record).await
}

pub(super) async fn open_text(db: &Readers, turn: TurnId) -> ReadResult<Vec<OpenText>> {
    let sql = "SELECT block, seq, channel, text FROM open_text WHERE turn_id = $1
        ORDER BY block, seq";
    let record = |row: &Row| {
        let channels = [TextChannel::Answer, TextChannel::Reasoning];
        let block: i64 = row.try_get(0)?;
        Ok(OpenText {
            block: block.try_into().map_err(|_| Unreadable("the number of a block".into()))?,
            seq: number(row, 1)?,
            channel: parse_variant(&channels, TextChannel::as_str, word(row, 2)?)?,
            text: text(row, 3)?.into(),
        })
    };
    db.read(sql, &[&turn.as_uuid()], record).await
}

pub(super) fn session_record(row: &Row) -> Result<SessionRecord, PgError> {
    let forked_from: Option<Uuid> = row.try_get(6)?;
    let forked_after: Option<Uuid> = row.try_get(8)?;
    Ok(SessionRecord {
        id: session_id(row, 0)?,
        revision: number(row, 1)?,
        created_at: time(row, 2)?,
        updated_at: time(row, 3)?,
        title: optional_text(row, 4)?.map(Into::into),
        source: optional_text(row, 9)?.and_then(|source| source.parse().ok()),
        native: optional_text(row, 5)?.map(NativeSessionId::new),
        forked_from: forked_from.map(SessionId::from_uuid),
        forked_after: forked_after.map(TurnId::from_uuid),
        spec: spec_json::decode(text(row, 7)?)?,
    })
}

fn turn_record(row: &Row) -> Result<TurnRecord, PgError> {
    let state = match word(row, 3)? {
        "finished" => {
            TurnState::Finished { at: time(row, 7)?, outcome: outcome_json::decode(text(row, 8)?) }
        }
        unfinished => parse_unfinished_state(unfinished, row.try_get(12)?)?,
    };
    Ok(TurnRecord {
        id: turn_id(row, 0)?,
        session: session_id(row, 1)?,
        input: content_json::decode(text(row, 6)?)?,
        options: TurnOptions {
            origin: parse_origin(word(row, 4)?)?,
            can_ask: row.try_get(5)?,
            can_park: row.try_get(9)?,
            caller: optional_text(row, 10)?.map(Into::into),
            charged_to: optional_text(row, 13)?.map(Into::into),
            max_cost_usd: row.try_get(11)?,
            tool_choice: parse_tool_choice(optional_text(row, 14)?)?,
            task: TurnTask::Answer,
        },
        created_at: time(row, 2)?,
        state,
    })
}

/// Returns the id that a page stops before. Without one it is the greatest UUID, because every id
/// sorts before that.
pub(super) fn page_bound(page: Page) -> Uuid {
    page.before.unwrap_or(Uuid::max())
}
