//! The search: a trigram index of conversations (`docs/design/0021-status-usage-search.md`).

use std::collections::HashSet;

use angelia_core::{
    model::{SearchMatch, SearchQuery, SearchTerms, Speaker, TurnId},
    ports::SearchUpkeep,
};
use rusqlite::{Connection, Row, params};

use super::{
    columns::{parse_variant, session_id, timestamp, turn_id},
    error::SqliteError,
    event_json,
    read::{IS_LISTED, column_text, query_all},
    writer::Db,
};
use crate::store::search_text;

/// One step indexes few turns, because it blocks all other writers.
const TURNS_PER_STEP: i64 = 16;
/// The number of pages that one step of a merge writes.
const PAGES_PER_MERGE: i64 = 16;
/// Characters in a trigram.
const TRIGRAM: usize = 3;

/// Takes one step: of the removal of deleted words if there are any, else of the indexing.
pub(super) fn maintain(db: &Db) -> Result<SearchUpkeep, SqliteError> {
    if has_deleted_words(&db.connection)? {
        merge_segments(db)?;
    } else {
        index_turns(db)?;
    }
    what_is_left(&db.connection)
}

pub(super) fn what_is_left(db: &Connection) -> Result<SearchUpkeep, SqliteError> {
    if has_deleted_words(db)? {
        return Ok(SearchUpkeep::HasDeletedWords);
    }
    if has_unindexed_turns(db)? {
        return Ok(SearchUpkeep::HasUnindexedTurns);
    }
    Ok(SearchUpkeep::Complete)
}

pub(super) fn has_unindexed_turns(db: &Connection) -> Result<bool, SqliteError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM turns
        WHERE is_indexed = 0 AND finished_seq IS NOT NULL)";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

fn has_deleted_words(db: &Connection) -> Result<bool, SqliteError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM search_state WHERE has_deleted)";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Merges a few pages of the index. Once all its segments are merged, no deleted entry is left.
fn merge_segments(db: &Db) -> Result<(), SqliteError> {
    let before = db.connection.total_changes();
    db.connection
        .prepare_cached("INSERT INTO words (words, rank) VALUES ('merge', ?1)")?
        .execute([-PAGES_PER_MERGE])?;
    // The statement itself counts as one change.
    if db.connection.total_changes() - before < 2 {
        db.connection.prepare_cached("UPDATE search_state SET has_deleted = 0")?.execute([])?;
    }
    Ok(())
}

/// Indexes the oldest turns that are not indexed yet.
pub(super) fn index_turns(db: &Db) -> Result<(), SqliteError> {
    let sql = format!(
        "SELECT t.id, i.body, {IS_LISTED} FROM turns t JOIN inputs i ON i.turn_id = t.id
        JOIN sessions s ON s.id = t.session_id
        WHERE t.is_indexed = 0 AND t.finished_seq IS NOT NULL ORDER BY t.number LIMIT ?1"
    );
    let turns = query_all(&db.connection, &sql, [TURNS_PER_STEP], |row| {
        Ok((
            turn_id(row, 0)?,
            search_text::input_text(column_text(row, 1)?),
            row.get::<_, bool>(2)?,
        ))
    })?;
    for (turn, input, is_listed) in turns {
        if is_listed {
            insert_text(db, turn, Speaker::Person, &input)?;
            insert_text(db, turn, Speaker::Agent, &said_by_agent(&db.connection, turn)?)?;
        }
        db.connection
            .prepare_cached("UPDATE turns SET is_indexed = 1 WHERE id = ?1")?
            .execute([turn.as_uuid().as_bytes()])?;
    }
    Ok(())
}

fn said_by_agent(db: &Connection, turn: TurnId) -> Result<String, SqliteError> {
    let sql = "SELECT format, kind, body FROM events
        WHERE turn_id = ?1 AND kind IN ('block', 'finished') ORDER BY seq";
    let events = query_all(db, sql, [turn.as_uuid().as_bytes()], |row| {
        Ok(event_json::decode(row.get(0)?, column_text(row, 1)?, column_text(row, 2)?))
    })?;
    Ok(search_text::answer_text(&events))
}

fn insert_text(db: &Db, turn: TurnId, speaker: Speaker, text: &str) -> Result<(), SqliteError> {
    let Some(text) = search_text::searchable(text) else {
        return Ok(());
    };
    db.connection
        .prepare_cached("INSERT INTO texts (turn_id, speaker) VALUES (?1, ?2)")?
        .execute(params![turn.as_uuid().as_bytes(), speaker.as_str()])?;
    db.connection
        .prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?
        .execute(params![db.connection.last_insert_rowid(), text])?;
    Ok(())
}

/// Returns an FTS5 expression for texts that have all trigrams of the words; `None` if every word is
/// too short.
fn trigram_expression(terms: &SearchTerms) -> Option<String> {
    let mut trigrams = Vec::new();
    for word in terms.words() {
        let chars: Vec<char> = word.chars().collect();
        for trigram in chars.windows(TRIGRAM) {
            let quoted = trigram.iter().collect::<String>().replace('"', "\"\"");
            trigrams.push(format!("\"{quoted}\""));
        }
    }
    trigrams.sort_unstable();
    trigrams.dedup();
    (!trigrams.is_empty()).then(|| trigrams.join(" AND "))
}

/// Finds the newest match of each session. The texts are numbered in the order of their turns.
pub(super) fn find(db: &Connection, query: &SearchQuery) -> Result<Vec<SearchMatch>, SqliteError> {
    let expression = trigram_expression(&query.terms);
    let condition = if expression.is_some() { "words MATCH ?1" } else { "?1 IS NULL" };
    let sql = format!(
        "SELECT w.text, x.speaker, t.id, t.session_id, t.created_at
         FROM words w JOIN texts x ON x.id = w.rowid JOIN turns t ON t.id = x.turn_id
         WHERE {condition} ORDER BY w.rowid DESC"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([expression])?;
    let mut found = Vec::new();
    let mut sessions = HashSet::new();
    while found.len() < query.limit
        && let Some(row) = rows.next()?
    {
        if query.terms.matches(column_text(row, 0)?) && sessions.insert(session_id(row, 3)?) {
            found.push(search_match(row, &query.terms)?);
        }
    }
    Ok(found)
}

fn search_match(row: &Row<'_>, terms: &SearchTerms) -> Result<SearchMatch, SqliteError> {
    let speakers = [Speaker::Person, Speaker::Agent];
    Ok(SearchMatch {
        session: session_id(row, 3)?,
        turn: turn_id(row, 2)?,
        at: timestamp(row.get(4)?),
        speaker: parse_variant(&speakers, Speaker::as_str, column_text(row, 1)?)?,
        excerpt: terms.excerpt(column_text(row, 0)?),
    })
}
