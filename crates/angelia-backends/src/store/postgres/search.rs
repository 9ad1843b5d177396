//! The search: what was said, and the same in lower case, scanned from the newest on
//! (`docs/design/0044-postgres-store.md`).

use std::collections::HashSet;

use angelia_core::{
    model::{EventKind, SearchMatch, SearchQuery, Speaker, TurnId, fold_text},
    ports::{SearchUpkeep, StoreError},
};
use tokio_postgres::Row;

use super::{
    alone::Transaction,
    columns::{parse_variant, session_id, text, time, turn_id, word},
    error::PgError,
    read::IS_LISTED,
    readers::Readers,
};
use crate::store::{event_json, search_text};

/// One step keeps few turns, because other jobs wait for it.
const TURNS_PER_STEP: i64 = 16;
/// The number of matches that are read at once: of one session only the newest counts.
const MATCHES_PER_STEP: i64 = 100;

/// Returns what is left to do. Deleted words go with their rows.
pub(super) async fn what_is_left(db: &Readers) -> Result<SearchUpkeep, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM turns
        WHERE NOT is_indexed AND finished_seq IS NOT NULL)";
    let is_left = db.read(sql, &[], |row| Ok(row.try_get::<_, bool>(0)?)).await?;
    Ok(if is_left == [true] { SearchUpkeep::HasUnindexedTurns } else { SearchUpkeep::Complete })
}

/// Keeps the texts of the oldest turns that are not kept yet. Turns that another process has in hand are
/// left to it.
pub(super) async fn index_turns(db: &Transaction<'_>) -> Result<(), PgError> {
    let sql = format!(
        "SELECT t.id, t.number, i.body, {IS_LISTED} FROM turns t
         JOIN inputs i ON i.turn_id = t.id JOIN sessions s ON s.id = t.session_id
         WHERE NOT t.is_indexed AND t.finished_seq IS NOT NULL
         ORDER BY t.number LIMIT $1 FOR UPDATE OF t SKIP LOCKED"
    );
    for row in db.query(&sql, &[&TURNS_PER_STEP]).await? {
        let (turn, number) = (turn_id(&row, 0)?, row.try_get(1)?);
        if row.try_get(3)? {
            insert(db, turn, number, Speaker::Person, &search_text::input_text(text(&row, 2)?))
                .await?;
            insert(db, turn, number, Speaker::Agent, &said_by_agent(db, turn).await?).await?;
        }
        let done = "UPDATE turns SET is_indexed = true WHERE id = $1";
        db.execute(done, &[&turn.as_uuid()]).await?;
    }
    Ok(())
}

async fn said_by_agent(db: &Transaction<'_>, turn: TurnId) -> Result<String, PgError> {
    let sql = "SELECT format, kind, body FROM events
        WHERE turn_id = $1 AND kind IN ('block', 'finished') ORDER BY seq";
    let rows = db.query(sql, &[&turn.as_uuid()]).await?;
    let event = |row: &Row| {
        let format = i64::from(row.try_get::<_, i16>(0)?);
        Ok::<EventKind, PgError>(event_json::decode(format, word(row, 1)?, text(row, 2)?))
    };
    let events: Vec<_> = rows.iter().map(event).collect::<Result<_, _>>()?;
    Ok(search_text::answer_text(&events))
}

async fn insert(
    db: &Transaction<'_>,
    turn: TurnId,
    number: i64,
    speaker: Speaker,
    said: &str,
) -> Result<(), PgError> {
    let Some(said) = search_text::searchable(said) else {
        return Ok(());
    };
    let folded = fold_text(said);
    db.execute(
        "INSERT INTO texts (turn_id, number, speaker, text, folded) VALUES ($1, $2, $3, $4, $5)",
        &[&turn.as_uuid(), &number, &speaker.as_str(), &said.as_bytes(), &folded.as_bytes()],
    )
    .await
    .map(drop)
}

/// Finds the newest match of each session.
pub(super) async fn find(
    db: &Readers,
    query: &SearchQuery,
) -> Result<Vec<SearchMatch>, StoreError> {
    // What the agent said comes after what the person said.
    let sql = "SELECT x.text, x.speaker, t.id, t.session_id, t.created_at, x.number
        FROM texts x JOIN turns t ON t.id = x.turn_id
        WHERE (SELECT bool_and(position(w.word in x.folded) > 0) FROM unnest($1::bytea[]) w (word))
            AND (x.number, x.speaker = 'agent') < ($2, $3)
        ORDER BY x.number DESC, x.speaker = 'agent' DESC LIMIT $4";
    let words: Vec<Vec<u8>> = query.terms.folded_words().map(String::into_bytes).collect();
    let mut place = (i64::MAX, true);
    let (mut found, mut sessions) = (Vec::new(), HashSet::new());
    loop {
        let rows = db.query(sql, &[&words, &place.0, &place.1, &MATCHES_PER_STEP]).await?;
        for row in &rows {
            let (session, one) = search_match(row, query).map_err(|error| db.store_error(error))?;
            place = (
                row.try_get(5).map_err(|error| db.store_error(error.into()))?,
                one.speaker == Speaker::Agent,
            );
            let is_match = text(row, 0).is_ok_and(|text| query.terms.matches(text));
            if is_match && sessions.insert(session) {
                found.push(one);
            }
            if found.len() >= query.limit {
                return Ok(found);
            }
        }
        if rows.is_empty() {
            return Ok(found);
        }
    }
}

fn search_match(
    row: &Row,
    query: &SearchQuery,
) -> Result<(angelia_core::model::SessionId, SearchMatch), PgError> {
    let speakers = [Speaker::Person, Speaker::Agent];
    let session = session_id(row, 3)?;
    let found = SearchMatch {
        session,
        turn: turn_id(row, 2)?,
        at: time(row, 4)?,
        speaker: parse_variant(&speakers, Speaker::as_str, word(row, 1)?)?,
        excerpt: query.terms.excerpt(text(row, 0)?),
    };
    Ok((session, found))
}
