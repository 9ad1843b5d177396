//! The usage of turns: one row per turn that reached an agent, kept up to date by its events.

use angelia_core::model::{AgentStart, ColdReason, EventKind, TurnEvent, Usage};

use super::{
    columns::{bytes, optional_bytes, token_count},
    groups::{Calls, values},
};

/// Adds the statements that apply an event of a turn to its row.
pub(super) fn record_event(calls: &mut Calls, event: &TurnEvent) {
    match &event.kind {
        EventKind::Started(started) => insert(calls, event, started),
        EventKind::Usage(usage) => update(calls, event, usage),
        EventKind::Finished(outcome) => {
            update(calls, event, &outcome.usage);
            finish(calls, event, &outcome.usage);
        }
        _ => {}
    }
}

fn insert(calls: &mut Calls, event: &TurnEvent, started: &AgentStart) {
    calls.add(
        "INSERT INTO usage (turn_id, session_id, at, profile, executor, model, caller)
         SELECT id, session_id, created_at, $2, $3, $4, coalesce(charged_to, caller)
            FROM turns WHERE id = $1
         ON CONFLICT DO NOTHING",
        values![
            event.turn.as_uuid(),
            bytes(&started.profile),
            bytes(&started.executor),
            optional_bytes(started.model.as_ref()),
        ],
    );
}

/// Replaces the counts, because those of an event include all earlier ones.
fn update(calls: &mut Calls, event: &TurnEvent, usage: &Usage) {
    calls.add(
        "UPDATE usage SET input_tokens = $2, output_tokens = $3, cache_read_tokens = $4,
            cache_write_tokens = $5, cost_usd = $6, lane = coalesce($7, lane)
         WHERE turn_id = $1",
        values![
            event.turn.as_uuid(),
            token_count(usage.input_tokens),
            token_count(usage.output_tokens),
            token_count(usage.cache_read_tokens),
            token_count(usage.cache_write_tokens),
            usage.cost_usd,
            optional_bytes(usage.lane.as_ref()),
        ],
    );
}

/// Notes whether the turn was cold.
fn finish(calls: &mut Calls, event: &TurnEvent, usage: &Usage) {
    // The reason depends on the turn before, which only the database knows.
    let is_cold = ColdReason::of(usage, None, None).is_some();
    calls.add(
        "SELECT finish_usage($1, $2, $3)",
        values![event.turn.as_uuid(), optional_bytes(usage.prefix_sha256.as_ref()), is_cold],
    );
}
