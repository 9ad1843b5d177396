//! Sessions with the fields that lists show, and records by the prefix of their ids.

use angelia_core::{
    model::{ExternalName, IdPrefix, LatestTurn, SessionId, SessionSummary, TurnId, first_words},
    ports::{Page, RecordKind, SessionFilter, SessionOrder, SessionQuery},
};
use rusqlite::{
    Connection, OptionalExtension as _, Params, Row, params, params_from_iter, types::Value,
};
use uuid::Uuid;

use super::{
    columns::{nanoseconds, time_of_id, timestamp, to_i64, to_u64, uuid},
    content_json,
    error::SqliteError,
    read::{IS_LISTED, SESSION_COLUMNS, column_text, page_bound, query_all, session_record},
};
use crate::store::{unreadable::Unreadable, values::table_of};

type ReadResult<T> = Result<T, SqliteError>;

pub(super) fn list(db: &Connection, query: &SessionQuery) -> ReadResult<Vec<SessionSummary>> {
    match query {
        SessionQuery::One(id) => select(db, "WHERE s.id = ?1", [id.as_uuid().as_bytes()]),
        SessionQuery::Find { filter, order, page } => find(db, filter, *order, *page),
    }
}

/// Collects the conditions of a query and their values.
#[derive(Default)]
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a condition. Each `?` in it stands for the next value.
    fn add(&mut self, sql: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push(sql.to_owned());
        self.values.extend(values);
    }
}

fn find(
    db: &Connection,
    filter: &SessionFilter,
    order: SessionOrder,
    page: Page,
) -> ReadResult<Vec<SessionSummary>> {
    let mut conditions = Conditions::default();
    conditions.add(IS_LISTED, []);
    let text = |text: &str| Value::Text(text.to_owned());
    let order = match order {
        SessionOrder::Created => {
            let before = page_bound(page).as_bytes().to_vec();
            conditions.add("s.id < ?", [Value::Blob(before)]);
            "s.id DESC"
        }
        SessionOrder::Used => {
            let (time, id) = place_of(db, page)?;
            let place = [Value::Integer(time), Value::Blob(id.as_bytes().to_vec())];
            conditions.add("(s.updated_at, s.id) < (?, ?)", place);
            "s.updated_at DESC, s.id DESC"
        }
    };
    for word in &filter.words {
        let escaped = word.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
        let said = format!(
            r"coalesce(s.title, '') || ' ' || coalesce(s.first_words, '') || ' '
                || coalesce({}, '') LIKE ? ESCAPE '\'",
            name_of_session()
        );
        conditions.add(&said, [Value::Text(format!("%{escaped}%"))]);
    }
    for (column, wanted) in [("s.profile", &filter.profile), ("s.executor", &filter.executor)] {
        if let Some(wanted) = wanted {
            conditions.add(&format!("{column} = ?"), [text(wanted)]);
        }
    }
    if let Some(source) = &filter.source {
        let prefix = format!("{source}:");
        let is_of = "(s.source = ? OR substr(s.source, 1, length(?)) = ?)";
        conditions.add(is_of, [text(source), text(&prefix), text(&prefix)]);
    }
    if let Some(since) = filter.since {
        conditions.add("s.updated_at >= ?", [Value::Integer(nanoseconds(since))]);
    }
    if let Some(cwd) = &filter.cwd {
        conditions.add("s.cwd = ?", [text(&cwd.to_string_lossy())]);
    }
    if filter.is_unfinished() {
        // Few turns run, and an index finds them.
        conditions.add("s.id IN (SELECT session_id FROM turns WHERE finished_seq IS NULL)", []);
    }
    if !filter.statuses.is_empty() {
        let statuses = serde_json::to_string(&filter.statuses).map_err(Unreadable::from)?;
        let newest = format!(
            "(SELECT {STATUS} FROM turns t WHERE t.session_id = s.id ORDER BY t.number DESC LIMIT 1)
                IN (SELECT value FROM json_each(?))"
        );
        conditions.add(&newest, [Value::Text(statuses)]);
    }
    conditions.values.push(Value::Integer(to_i64(page.limit)));
    let rest = format!("WHERE {} ORDER BY {order} LIMIT ?", conditions.sql.join(" AND "));
    select(db, &rest, params_from_iter(conditions.values))
}

/// Returns the time and id that a page by use starts behind. A session that is gone counts as last
/// used when it was created.
fn place_of(db: &Connection, page: Page) -> ReadResult<(i64, Uuid)> {
    let Some(before) = page.before else {
        return Ok((i64::MAX, Uuid::max()));
    };
    let time = db
        .prepare_cached("SELECT updated_at FROM sessions WHERE id = ?1")?
        .query_row([before.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok((time.or_else(|| time_of_id(before)).unwrap_or(i64::MAX), before))
}

/// SQL for the owner's name for a session.
fn name_of_session() -> String {
    let scope = ExternalName::OWNER_SCOPE;
    format!(
        "(SELECT n.name FROM external_names n
            WHERE n.session_id = s.id AND n.scope = '{scope}' LIMIT 1)"
    )
}

/// SQL for the status of a turn.
const STATUS: &str = "coalesce(t.status, t.state)";

fn select(db: &Connection, rest: &str, parameters: impl Params) -> ReadResult<Vec<SessionSummary>> {
    let name = name_of_session();
    let sql = format!(
        "SELECT {SESSION_COLUMNS}, s.first_words, {name}, s.turns, s.cost_usd,
            t.id, {STATUS}, t.created_at
        FROM sessions s JOIN specs p ON p.session_id = s.id
        LEFT JOIN turns t ON t.id = (SELECT n.id FROM turns n
            WHERE n.session_id = s.id ORDER BY n.number DESC LIMIT 1) {rest}"
    );
    let mut found = query_all(db, &sql, parameters, summary)?;
    for summary in found.iter_mut().filter(|one| one.first_words.is_none()) {
        summary.first_words = words_of_first_turn(db, summary.record.id)?.map(Into::into);
    }
    Ok(found)
}

fn summary(row: &Row<'_>) -> ReadResult<SessionSummary> {
    let newest: Option<[u8; 16]> = row.get(14)?;
    let newest_turn = match newest {
        None => None,
        Some(id) => Some(LatestTurn {
            id: TurnId::from_uuid(Uuid::from_bytes(id)),
            status: row.get(15)?,
            created_at: timestamp(row.get(16)?),
        }),
    };
    Ok(SessionSummary {
        record: session_record(row)?,
        first_words: row.get(10)?,
        name: row.get(11)?,
        turns: to_u64(row.get(12)?),
        cost_usd: row.get(13)?,
        newest_turn,
    })
}

/// Reads the first words of a session that was recorded before they were kept.
fn words_of_first_turn(db: &Connection, session: SessionId) -> ReadResult<Option<String>> {
    let sql = "SELECT i.body FROM turns t JOIN inputs i ON i.turn_id = t.id
        WHERE t.session_id = ?1 ORDER BY t.number LIMIT 1";
    let inputs = query_all(db, sql, [session.as_uuid().as_bytes()], |row| {
        Ok(content_json::decode(column_text(row, 0)?)?)
    })?;
    Ok(inputs.first().and_then(|input| first_words(input)))
}

pub(super) fn find_ids(
    db: &Connection,
    kind: RecordKind,
    prefix: IdPrefix,
    limit: usize,
) -> ReadResult<Vec<Uuid>> {
    let table = table_of(kind);
    let sql = format!("SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3");
    let (first, last) = prefix.range();
    let parameters = params![first.as_bytes(), last.as_bytes(), to_i64(limit)];
    query_all(db, &sql, parameters, |row| Ok(uuid(row, 0)?))
}

pub(super) fn neighbours(
    db: &Connection,
    kind: RecordKind,
    ids: &[Uuid],
) -> ReadResult<Vec<[Option<Uuid>; 2]>> {
    let table = table_of(kind);
    let sql = format!(
        "SELECT (SELECT max(id) FROM {table} WHERE id < ?1), (SELECT min(id) FROM {table} WHERE id > ?1)"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let bytes = statement.query_row([id.as_bytes()], |row| {
            Ok([row.get::<_, Option<[u8; 16]>>(0)?, row.get(1)?])
        })?;
        found.push(bytes.map(|id| id.map(Uuid::from_bytes)));
    }
    Ok(found)
}
