//! New turns and their idempotency keys: each claim records a key, the hash of its request and the
//! turn that it created, so that a request runs at most once.

use angelia_core::{
    model::TurnRecord,
    ports::{ClaimOutcome, Lease, NewTurn, RequestClaim, StoreError},
};
use tokio_postgres::Row;

use super::{
    alone::Transaction,
    columns::{forget_at, nanoseconds, to_i64, turn_id},
    connection::Parameters,
    error::PgError,
    groups::Calls,
    readers::Readers,
    turns,
};

/// The number of expired claims that a new claim removes: more than one, so that they never pile
/// up, and few enough not to slow it down.
const MAX_EXPIRED_PER_CLAIM: i64 = 64;

/// SQL for a claim that counts: caller, key, since.
const FIND: &str = "SELECT turn_id, input FROM claims
    WHERE sha256(caller) = sha256($1) AND sha256(key) = sha256($2) AND made_at >= $3";

/// The statements of a new turn, which do not depend on what is read.
pub(super) fn insertion(new: &NewTurn) -> Result<Calls, StoreError> {
    let mut calls = Calls::default();
    turns::insert(&mut calls, &new.record)?;
    if let Some(entry) = new.history_entry() {
        turns::insert_history(&mut calls, &entry);
    }
    Ok(calls)
}

/// Creates a turn unless its request has created one before. The claim comes first, so that of two
/// processes the second waits for the first.
pub(super) async fn create_turn(
    db: &Transaction<'_>,
    lease: &Lease,
    new: &NewTurn,
    claim: &RequestClaim,
    insertion: &Calls,
) -> Result<ClaimOutcome, PgError> {
    // Check the lease before the claim: a process that has lost the session learns nothing of it.
    check_lease(db, lease).await?;
    if new.record.session != lease.session {
        return Err(StoreError::LeaseLost.into());
    }
    let since = nanoseconds(claim.since);
    // A claim that is there may be deleted before it is read.
    loop {
        if insert_claim(db, claim, &new.record).await? {
            break;
        }
        if let Some(row) = db
            .query(FIND, &[&claim.caller.as_bytes(), &claim.key.as_bytes(), &since])
            .await?
            .first()
        {
            return outcome(row, claim);
        }
    }
    db.enter().await?;
    check_lease(db, lease).await?;
    db.run(insertion).await?;
    delete_expired(db, nanoseconds(new.record.created_at)).await?;
    Ok(ClaimOutcome::New)
}

pub(super) async fn check(db: &Readers, claim: &RequestClaim) -> Result<ClaimOutcome, StoreError> {
    let since = nanoseconds(claim.since);
    let key: Parameters<'_> = &[&claim.caller.as_bytes(), &claim.key.as_bytes(), &since];
    let known = db.read(FIND, key, |row| outcome(row, claim)).await?;
    Ok(known.into_iter().next().unwrap_or(ClaimOutcome::New))
}

fn outcome(row: &Row, claim: &RequestClaim) -> Result<ClaimOutcome, PgError> {
    let turn = turn_id(row, 0)?;
    let is_same = row.try_get::<_, &[u8]>(1)? == claim.input;
    Ok(if is_same { ClaimOutcome::Repeats(turn) } else { ClaimOutcome::Conflicts(turn) })
}

async fn check_lease(db: &Transaction<'_>, lease: &Lease) -> Result<(), PgError> {
    let session = lease.session.as_uuid();
    let check = "SELECT check_lease($1, $2, $3)";
    db.execute(check, &[&db.owner.id(), &session, &to_i64(lease.epoch)]).await.map(drop)
}

/// Returns whether the key was free, and now belongs to this turn.
async fn insert_claim(
    db: &Transaction<'_>,
    claim: &RequestClaim,
    turn: &TurnRecord,
) -> Result<bool, PgError> {
    let made_at = nanoseconds(turn.created_at);
    let inserted = db
        .execute(
            "INSERT INTO claims AS old (caller, key, input, turn_id, made_at, forget_at)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (sha256(caller), sha256(key)) DO UPDATE SET input = excluded.input,
                turn_id = excluded.turn_id, made_at = excluded.made_at,
                forget_at = excluded.forget_at
             WHERE old.made_at < $7",
            &[
                &claim.caller.as_bytes(),
                &claim.key.as_bytes(),
                &&claim.input[..],
                &turn.id.as_uuid(),
                &made_at,
                &forget_at(claim, made_at),
                &nanoseconds(claim.since),
            ],
        )
        .await?;
    Ok(inserted > 0)
}

async fn delete_expired(db: &Transaction<'_>, now: i64) -> Result<(), PgError> {
    // Not those that another transaction holds: it must not be waited for.
    db.execute(
        "DELETE FROM claims WHERE ctid IN (SELECT ctid FROM claims WHERE forget_at < $1
            LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&now, &MAX_EXPIRED_PER_CLAIM],
    )
    .await
    .map(drop)
}
