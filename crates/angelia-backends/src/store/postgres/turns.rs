//! The statements of a turn that the owner of its session writes: in groups.

use angelia_core::{
    model::{EventKind, Outcome, Seq, TurnEvent, TurnId, TurnRecord, TurnState, first_words},
    ports::{HistoryEntry, Lease, NewTurn, OpenText, StoreError},
};

use super::{
    approvals,
    columns::{
        bytes, nanoseconds, optional_bytes, resumes_at, to_i64, tool_choice_text,
        unfinished_state_text,
    },
    groups::{Calls, values},
    usage,
};
use crate::store::{content_json, event_json, unreadable::Unreadable};

/// What every write with a lease is checked against.
pub(super) struct LeaseKey {
    pub(super) owner: String,
    pub(super) lease: Lease,
}

const CHECK_LEASE: &str = "SELECT check_lease($1, $2, $3)";
const CHECK_OPEN_TURN: &str = "SELECT check_open_turn($1, $2, $3, $4)";
const APPEND: &str = "SELECT append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// Returns the error of a record that cannot be written.
pub(super) fn unwritable(error: &Unreadable) -> StoreError {
    StoreError::Failed { message: format!("the record cannot be written: {}", error.0) }
}

/// A turn without a claim.
pub(super) fn create(key: &LeaseKey, new: &NewTurn) -> Result<Calls, StoreError> {
    if new.record.session != key.lease.session {
        return Err(StoreError::LeaseLost);
    }
    let mut calls = Calls::default();
    let session = key.lease.session.as_uuid();
    calls.add(CHECK_LEASE, values![key.owner.clone(), session, to_i64(key.lease.epoch)]);
    insert(&mut calls, &new.record)?;
    if let Some(entry) = new.history_entry() {
        insert_history(&mut calls, &entry);
    }
    Ok(calls)
}

pub(super) const INSERT_TURN: &str =
    "INSERT INTO turns (id, session_id, created_at, state, origin, can_ask, can_park, caller,
        max_cost_usd, resumes_at, charged_to, tool_choice)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
pub(super) const INSERT_INPUT: &str = "INSERT INTO inputs (turn_id, body) VALUES ($1, $2)";
pub(super) const COUNT_TURN: &str =
    "UPDATE sessions SET updated_at = greatest(updated_at, $2), turns = turns + 1,
        first_words = coalesce(first_words, $3)
     WHERE id = $1";
pub(super) const INSERT_HISTORY: &str =
    "INSERT INTO histories (hash, turn_id, seq, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// Adds the statements that insert a turn.
pub(super) fn insert(calls: &mut Calls, turn: &TurnRecord) -> Result<(), StoreError> {
    let id = turn.id.as_uuid();
    calls.add(
        INSERT_TURN,
        values![
            id,
            turn.session.as_uuid(),
            nanoseconds(turn.created_at),
            unfinished_state_text(&turn.state)?,
            turn.options.origin.as_str(),
            turn.options.can_ask,
            turn.options.can_park,
            optional_bytes(turn.options.caller.as_ref()),
            turn.options.max_cost_usd,
            resumes_at(&turn.state),
            optional_bytes(turn.options.charged_to.as_ref()),
            optional_bytes(tool_choice_text(&turn.options.tool_choice)),
        ],
    );
    let body = content_json::encode(&turn.input).map_err(|error| unwritable(&error))?;
    let length = body.len();
    calls.add_long(INSERT_INPUT, values![id, body.into_bytes()], length);
    calls.add(
        COUNT_TURN,
        values![
            turn.session.as_uuid(),
            nanoseconds(turn.created_at),
            optional_bytes(first_words(&turn.input)),
        ],
    );
    Ok(())
}

pub(super) fn insert_history(calls: &mut Calls, entry: &HistoryEntry) {
    let turn = entry.turn.as_uuid();
    calls.add(
        "SELECT refuse_unless(EXISTS
            (SELECT 1 FROM turns WHERE id = $1 AND session_id = $2), 'ANG04')",
        values![turn, entry.session.as_uuid()],
    );
    calls.add(
        INSERT_HISTORY,
        values![entry.hash.to_vec(), turn, to_i64(entry.seq), nanoseconds(entry.at)],
    );
}

pub(super) fn set_state(
    key: &LeaseKey,
    turn: TurnId,
    state: &TurnState,
) -> Result<Calls, StoreError> {
    let mut calls = Calls::default();
    check_open_turn(&mut calls, key, turn);
    calls.add(
        "UPDATE turns SET state = $2, resumes_at = $3 WHERE id = $1",
        values![turn.as_uuid(), unfinished_state_text(state)?, resumes_at(state)],
    );
    Ok(calls)
}

fn check_open_turn(calls: &mut Calls, key: &LeaseKey, turn: TurnId) {
    let session = key.lease.session.as_uuid();
    calls.add(
        CHECK_OPEN_TURN,
        values![key.owner.clone(), session, to_i64(key.lease.epoch), turn.as_uuid()],
    );
}

pub(super) fn save_open_text(key: &LeaseKey, turn: TurnId, pieces: &[OpenText]) -> Calls {
    let mut calls = Calls::default();
    check_open_turn(&mut calls, key, turn);
    for piece in pieces {
        calls.add_long(
            "INSERT INTO open_text (turn_id, block, seq, channel, text)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            values![
                turn.as_uuid(),
                i64::from(piece.block),
                to_i64(piece.seq),
                piece.channel.as_str(),
                bytes(&piece.text),
            ],
            piece.text.len(),
        );
    }
    calls
}

pub(super) fn append(
    key: &LeaseKey,
    earlier: &[Seq],
    events: &[TurnEvent],
) -> Result<Calls, StoreError> {
    let mut calls = Calls::default();
    let mut earlier = earlier.iter().copied().map(to_i64).collect::<Vec<_>>();
    // Events of one turn go together, up to its end: what comes after that must be refused.
    let is_same = |a: &TurnEvent, b: &TurnEvent| {
        a.turn == b.turn && !matches!(a.kind, EventKind::Finished(_))
    };
    for run in events.chunk_by(is_same) {
        append_run(&mut calls, key, std::mem::take(&mut earlier), run)?;
    }
    Ok(calls)
}

fn append_run(
    calls: &mut Calls,
    key: &LeaseKey,
    earlier: Vec<i64>,
    run: &[TurnEvent],
) -> Result<(), StoreError> {
    let Some(first) = run.first() else { return Ok(()) };
    let (mut seqs, mut times, mut kinds, mut bodies) = (vec![], vec![], vec![], vec![]);
    let mut length = 0;
    for event in run.iter().filter(|event| event.kind.is_stored()) {
        let mut body = Vec::new();
        let kind = event_json::encode(&event.kind, &mut body).map_err(|e| unwritable(&e))?;
        seqs.push(to_i64(event.seq));
        times.push(nanoseconds(event.at));
        kinds.push(kind);
        length += body.len();
        bodies.push(body);
    }
    let format = i16::try_from(event_json::FORMAT_VERSION).unwrap_or(i16::MAX);
    calls.add_long(
        APPEND,
        values![
            key.owner.clone(),
            key.lease.session.as_uuid(),
            to_i64(key.lease.epoch),
            first.turn.as_uuid(),
            earlier,
            seqs,
            times,
            format,
            kinds,
            bodies,
        ],
        length,
    );
    for event in run.iter().filter(|event| event.kind.is_stored()) {
        usage::record_event(calls, event);
        match &event.kind {
            EventKind::Finished(outcome) => finish(calls, event, outcome),
            _ => approvals::record_event(calls, key.lease.session, event),
        }
    }
    Ok(())
}

fn finish(calls: &mut Calls, event: &TurnEvent, outcome: &Outcome) {
    let cost_usd = outcome.usage.cost_usd;
    calls.add(
        "UPDATE turns SET state = 'finished', finished_seq = $2, cost_usd = $3, resumes_at = NULL,
            status = $4
         WHERE id = $1",
        values![event.turn.as_uuid(), to_i64(event.seq), cost_usd, outcome.status.as_str()],
    );
    calls.add(
        "UPDATE sessions SET updated_at = greatest(updated_at, $2),
            cost_usd = CASE WHEN $3::double precision IS NULL THEN cost_usd
                ELSE coalesce(cost_usd, 0) + $3 END
         WHERE id = $1",
        values![event.session.as_uuid(), nanoseconds(event.at), cost_usd],
    );
    calls.add("DELETE FROM open_text WHERE turn_id = $1", values![event.turn.as_uuid()]);
}

/// The number of bytes that a check writes: about as much as the end of a turn.
const WRITE_CHECK_BYTES: usize = 32 << 10;

pub(super) fn check_writable() -> Calls {
    let mut calls = Calls::default();
    let body = vec![0_u8; WRITE_CHECK_BYTES];
    calls.add_long("INSERT INTO write_checks (body) VALUES ($1)", values![body], WRITE_CHECK_BYTES);
    calls.add("DELETE FROM write_checks", values![]);
    calls
}
