//! Sessions with the fields that lists show, and records by the prefix of their ids.

use angelia_core::{
    model::{ExternalName, IdPrefix, LatestTurn, SessionSummary, TurnId},
    ports::{Page, RecordKind, SessionFilter, SessionOrder, SessionQuery, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    columns::{nanoseconds, number, optional_text, time, time_of_id, to_i64, word},
    connection::Parameters,
    error::PgError,
    read::{IS_LISTED, SESSION_COLUMNS, page_bound, session_record},
    readers::Readers,
};
use crate::store::values::table_of;

type ReadResult<T> = Result<T, StoreError>;

/// With words to look for, so many sessions are read at once.
const STEP: usize = 200;

pub(super) async fn list(db: &Readers, query: &SessionQuery) -> ReadResult<Vec<SessionSummary>> {
    match query {
        SessionQuery::One(id) => {
            db.read(&select("WHERE s.id = $1"), &[&id.as_uuid()], summary).await
        }
        SessionQuery::Find { filter, order, page } if filter.words.is_empty() => {
            find(db, filter, *order, *page).await
        }
        SessionQuery::Find { filter, order, page } => find_words(db, filter, *order, *page).await,
    }
}

/// Finds sessions with words. They are compared here: the columns are bytes, which have no case.
async fn find_words(
    db: &Readers,
    filter: &SessionFilter,
    order: SessionOrder,
    page: Page,
) -> ReadResult<Vec<SessionSummary>> {
    let words = SessionFilter { words: filter.words.clone(), ..SessionFilter::default() };
    let mut found = Vec::new();
    let mut step = Page { limit: STEP, ..page };
    loop {
        let read = find(db, filter, order, step).await?;
        let is_last = read.len() < STEP;
        step.before = read.last().map(|one| one.record.id.as_uuid());
        found.extend(read.into_iter().filter(|one| words.admits(one)));
        if is_last || found.len() >= page.limit {
            found.truncate(page.limit);
            return Ok(found);
        }
    }
}

/// Finds sessions by everything but words.
async fn find(
    db: &Readers,
    filter: &SessionFilter,
    order: SessionOrder,
    page: Page,
) -> ReadResult<Vec<SessionSummary>> {
    let (place, order) = match order {
        SessionOrder::Created => ("s.id < $2 AND $1::bigint IS NOT NULL", "s.id DESC"),
        SessionOrder::Used => {
            ("(s.updated_at, s.id) < ($1::bigint, $2)", "s.updated_at DESC, s.id DESC")
        }
    };
    // Few turns run, and an index finds them.
    let unfinished = if filter.is_unfinished() {
        "AND s.id IN (SELECT session_id FROM turns WHERE finished_seq IS NULL)"
    } else {
        ""
    };
    let sql = select(&format!(
        "WHERE {IS_LISTED} AND {place} AND s.updated_at >= $3
            AND ($4::bytea IS NULL OR s.profile = $4) AND ($5::bytea IS NULL OR s.executor = $5)
            AND ($6::bytea IS NULL OR s.source = $6
                OR substring(s.source from 1 for length($6) + 1) = $6 || ':'::bytea)
            AND ($7::bytea IS NULL OR s.cwd = $7)
            AND (cardinality($8::text[]) = 0 OR {STATUS} = ANY ($8)) {unfinished}
         ORDER BY {order} LIMIT $9"
    ));
    let statuses: Vec<&str> =
        filter.statuses.iter().map(|word| &**word).filter(|word| !word.contains('\0')).collect();
    if statuses.is_empty() && !filter.statuses.is_empty() {
        return Ok(Vec::new());
    }
    let bytes =
        |text: &Option<std::sync::Arc<str>>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let cwd = filter.cwd.as_ref().map(|cwd| cwd.to_string_lossy().as_bytes().to_vec());
    let parameters: Parameters<'_> = &[
        &time_of_page(db, page).await?,
        &page_bound(page),
        &filter.since.map_or(i64::MIN, nanoseconds),
        &bytes(&filter.profile),
        &bytes(&filter.executor),
        &bytes(&filter.source),
        &cwd,
        &statuses,
        &to_i64(page.limit),
    ];
    db.read(&sql, parameters, summary).await
}

/// Returns the time that a page by use starts behind. A session that is gone counts as last used when
/// it was created.
async fn time_of_page(db: &Readers, page: Page) -> ReadResult<i64> {
    let Some(before) = page.before else {
        return Ok(i64::MAX);
    };
    let sql = "SELECT updated_at FROM sessions WHERE id = $1";
    let time = db.read(sql, &[&before], |row| Ok(row.try_get(0)?)).await?;
    Ok(time.first().copied().or_else(|| time_of_id(before)).unwrap_or(i64::MAX))
}

/// SQL for the status of a turn.
const STATUS: &str = "coalesce(t.status, t.state)";

fn select(rest: &str) -> String {
    let scope = ExternalName::OWNER_SCOPE;
    format!(
        "SELECT {SESSION_COLUMNS}, s.first_words,
            (SELECT n.name FROM external_names n
                WHERE n.session_id = s.id AND n.scope = '{scope}'::bytea LIMIT 1),
            s.turns, s.cost_usd, t.id, {STATUS}, t.created_at
         FROM sessions s JOIN specs p ON p.session_id = s.id
         LEFT JOIN LATERAL (SELECT n.id, n.status, n.state, n.created_at FROM turns n
            WHERE n.session_id = s.id ORDER BY n.number DESC LIMIT 1) t ON true {rest}"
    )
}

fn summary(row: &Row) -> Result<SessionSummary, PgError> {
    let newest_turn = match row.try_get::<_, Option<Uuid>>(14)? {
        None => None,
        Some(id) => Some(LatestTurn {
            id: TurnId::from_uuid(id),
            status: word(row, 15)?.into(),
            created_at: time(row, 16)?,
        }),
    };
    Ok(SessionSummary {
        record: session_record(row)?,
        first_words: optional_text(row, 10)?.map(Into::into),
        name: optional_text(row, 11)?.map(Into::into),
        turns: number(row, 12)?,
        cost_usd: row.try_get(13)?,
        newest_turn,
    })
}

pub(super) async fn find_ids(
    db: &Readers,
    kind: RecordKind,
    prefix: IdPrefix,
    limit: usize,
) -> ReadResult<Vec<Uuid>> {
    let table = table_of(kind);
    let sql = format!("SELECT id FROM {table} WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3");
    let (first, last) = prefix.range();
    db.read(&sql, &[&first, &last, &to_i64(limit)], |row| Ok(row.try_get(0)?)).await
}

pub(super) async fn neighbours(
    db: &Readers,
    kind: RecordKind,
    ids: &[Uuid],
) -> ReadResult<Vec<[Option<Uuid>; 2]>> {
    let table = table_of(kind);
    let sql = format!(
        "SELECT (SELECT id FROM {table} WHERE id < n.id ORDER BY id DESC LIMIT 1),
            (SELECT id FROM {table} WHERE id > n.id ORDER BY id LIMIT 1)
         FROM unnest($1::uuid[]) WITH ORDINALITY AS n (id, place) ORDER BY n.place"
    );
    db.read(&sql, &[&ids], |row| Ok([row.try_get(0)?, row.try_get(1)?])).await
}
