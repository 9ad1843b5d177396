//! New turns and their idempotency keys: each claim records a key, the hash of its request and the
//! turn that it created, so that a request runs at most once.

use angelia_core::{
    model::TurnRecord,
    ports::{ClaimOutcome, Lease, NewTurn, RequestClaim, StoreError},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    callers,
    columns::{forget_at, nanoseconds, turn_id},
    error::SqliteError,
    write,
    writer::Db,
};

/// The number of expired claims that a new claim removes: more than one, so that they never pile
/// up, and few enough not to slow it down.
const MAX_EXPIRED_PER_CLAIM: i64 = 64;

pub(super) fn create_turn(
    db: &Db,
    lease: &Lease,
    new: &NewTurn,
) -> Result<ClaimOutcome, SqliteError> {
    // Check the lease before the claim: a process that has lost the session learns nothing of it.
    write::check_session_lease(db, lease)?;
    if new.record.session != lease.session {
        return Err(StoreError::LeaseLost.into());
    }
    if let Some(claim) = &new.claim
        && let Some(known) = find_claim(&db.connection, claim)?
    {
        return Ok(known);
    }
    write::insert_turn(db, &new.record)?;
    if let Some(claim) = &new.claim {
        insert_claim(db, claim, &new.record)?;
    }
    if let Some(entry) = new.history_entry() {
        callers::note_history(db, &entry)?;
    }
    Ok(ClaimOutcome::New)
}

pub(super) fn find_claim(
    connection: &Connection,
    claim: &RequestClaim,
) -> Result<Option<ClaimOutcome>, SqliteError> {
    let known = connection
        .prepare_cached(
            "SELECT turn_id, input FROM claims WHERE caller = ?1 AND key = ?2 AND made_at >= ?3",
        )?
        .query_row(params![claim.caller, claim.key, nanoseconds(claim.since)], |row| {
            Ok((turn_id(row, 0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    Ok(known.map(|(turn, input)| {
        if input == claim.input {
            ClaimOutcome::Repeats(turn)
        } else {
            ClaimOutcome::Conflicts(turn)
        }
    }))
}

fn insert_claim(db: &Db, claim: &RequestClaim, turn: &TurnRecord) -> Result<(), SqliteError> {
    let made_at = nanoseconds(turn.created_at);
    db.connection
        .prepare_cached(
            "INSERT INTO claims (caller, key, input, turn_id, made_at, forget_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (caller, key) DO UPDATE SET input = excluded.input,
                turn_id = excluded.turn_id, made_at = excluded.made_at,
                forget_at = excluded.forget_at",
        )?
        .execute(params![
            claim.caller,
            claim.key,
            claim.input,
            turn.id.as_uuid().as_bytes(),
            made_at,
            forget_at(claim, made_at),
        ])?;
    delete_expired(db, made_at)
}

fn delete_expired(db: &Db, now: i64) -> Result<(), SqliteError> {
    db.connection
        .prepare_cached(
            "DELETE FROM claims WHERE (caller, key) IN
                (SELECT caller, key FROM claims WHERE forget_at < ?1 LIMIT ?2)",
        )?
        .execute([now, MAX_EXPIRED_PER_CLAIM])?;
    Ok(())
}
