//! The usage of turns: one row per turn that reached an agent, kept up to date by its events. The end
//! of a turn adds its row to the sums of its quarter of an hour, from which `usage_report` reads.

use angelia_core::model::{AgentStart, ColdReason, EventKind, TurnEvent, Usage};
use rusqlite::{OptionalExtension as _, params};

use super::{columns::token_count, error::SqliteError, writer::Db};

/// Applies an event of a turn to its row.
pub(super) fn record_event(db: &Db, event: &TurnEvent) -> Result<(), SqliteError> {
    match &event.kind {
        EventKind::Started(started) => insert(db, event, started),
        EventKind::Usage(usage) => update(db, event, usage),
        EventKind::Finished(outcome) => {
            update(db, event, &outcome.usage)?;
            finish(db, event, &outcome.usage)
        }
        _ => Ok(()),
    }
}

fn insert(db: &Db, event: &TurnEvent, started: &AgentStart) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached(
            "INSERT INTO usage (turn_id, session_id, at, profile, executor, model, caller)
             SELECT id, session_id, created_at, ?2, ?3, ?4, coalesce(charged_to, caller)
                FROM turns WHERE id = ?1
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            event.turn.as_uuid().as_bytes(),
            started.profile,
            started.executor,
            started.model,
        ])?;
    Ok(())
}

/// Replaces the counts, because those of an event include all earlier ones.
fn update(db: &Db, event: &TurnEvent, usage: &Usage) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached(
            "UPDATE usage SET input_tokens = ?2, output_tokens = ?3, cache_read_tokens = ?4,
                    cache_write_tokens = ?5, cost_usd = ?6, lane = coalesce(?7, lane)
             WHERE turn_id = ?1",
        )?
        .execute(params![
            event.turn.as_uuid().as_bytes(),
            token_count(usage.input_tokens),
            token_count(usage.output_tokens),
            token_count(usage.cache_read_tokens),
            token_count(usage.cache_write_tokens),
            usage.cost_usd,
            usage.lane,
        ])?;
    Ok(())
}

/// The row of a turn is final: notes whether the turn was cold, and adds it to the sums.
fn finish(db: &Db, event: &TurnEvent, usage: &Usage) -> Result<(), SqliteError> {
    let turn = event.turn.as_uuid();
    let cold = cold_reason(db, event, usage)?.map(ColdReason::as_str);
    let finished = db
        .connection
        .prepare_cached(
            "UPDATE usage SET is_final = 1, prefix = ?2, cold = ?3
             WHERE turn_id = ?1 AND is_final = 0",
        )?
        .execute(params![turn.as_bytes(), usage.prefix_sha256, cold])?;
    if finished == 0 {
        // The turn ended before an agent started on it.
        return Ok(());
    }
    db.connection
        .prepare_cached(
            "INSERT INTO usage_quarters
             SELECT at / 1000000000 / 900 * 900, profile, executor, coalesce(model, ''),
                    coalesce(caller, ''), coalesce(lane, ''), 1, input_tokens, output_tokens,
                    cache_read_tokens, cache_write_tokens, cost_usd, cold IS NOT NULL
                FROM usage WHERE turn_id = ?1
             ON CONFLICT DO UPDATE SET turns = turns + 1,
                input_tokens = input_tokens + excluded.input_tokens,
                output_tokens = output_tokens + excluded.output_tokens,
                cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
                cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
                cost_usd = iif(excluded.cost_usd IS NULL, cost_usd,
                    coalesce(cost_usd, 0) + excluded.cost_usd),
                cold_starts = cold_starts + excluded.cold_starts",
        )?
        .execute([turn.as_bytes()])?;
    Ok(())
}

fn cold_reason(
    db: &Db,
    event: &TurnEvent,
    usage: &Usage,
) -> Result<Option<ColdReason>, SqliteError> {
    // Most turns are warm, and need no look at the one before them.
    if ColdReason::of(usage, None, None).is_none() {
        return Ok(None);
    }
    let (turn, session) = (event.turn.as_uuid(), event.session.as_uuid());
    let model: Option<String> = db
        .connection
        .prepare_cached("SELECT model FROM usage WHERE turn_id = ?1")?
        .query_row([turn.as_bytes()], |row| row.get(0))
        .optional()?
        .flatten();
    let before: Option<(Option<String>, Option<String>)> = db
        .connection
        .prepare_cached(
            "SELECT model, prefix FROM usage WHERE session_id = ?1 AND turn_id < ?2
             ORDER BY turn_id DESC LIMIT 1",
        )?
        .query_row(params![session.as_bytes(), turn.as_bytes()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let before = before.as_ref().map(|(model, prefix)| (model.as_deref(), prefix.as_deref()));
    Ok(ColdReason::of(usage, model.as_deref(), before))
}
