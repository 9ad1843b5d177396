//! The statements that create, change, name, own and delete sessions.

use angelia_core::{
    model::{ExternalName, NativeSessionId, SessionId, SessionRecord, TurnId},
    ports::{Lease, StoreError},
};

use super::{
    alone::Transaction,
    columns::{bytes, history_words, nanoseconds, optional_bytes, session_id, to_i64, to_u64},
    error::PgError,
    groups::{Calls, values},
    owner_row::{self, StoredLease},
    turns::unwritable,
};
use crate::store::spec_json;

/// A new session: nobody else knows its id, so it goes with a group.
pub(super) fn create(session: &SessionRecord) -> Result<Calls, StoreError> {
    let mut calls = Calls::default();
    let id = session.id.as_uuid();
    calls.add(
        "INSERT INTO sessions (id, revision, created_at, updated_at, title, native, forked_from,
            forked_after, source, cwd, profile, executor, first_words)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
            coalesce($13, (SELECT first_words FROM sessions WHERE id = $7)))",
        values![
            id,
            to_i64(session.revision),
            nanoseconds(session.created_at),
            nanoseconds(session.updated_at),
            optional_bytes(session.title.as_ref()),
            optional_bytes(session.native.as_ref().map(NativeSessionId::as_str)),
            session.forked_from.map(SessionId::as_uuid),
            session.forked_after.map(TurnId::as_uuid),
            optional_bytes(session.source.as_ref().map(ToString::to_string)),
            optional_bytes(session.spec.cwd.to_str()),
            bytes(&session.spec.profile),
            bytes(&session.spec.executor),
            optional_bytes(history_words(&session.spec)),
        ],
    );
    let body = encoded_spec(session)?;
    let length = body.len();
    calls.add_long(
        "INSERT INTO specs (session_id, body) VALUES ($1, $2)",
        values![id, body],
        length,
    );
    calls.add("INSERT INTO leases (session_id, epoch) VALUES ($1, 0)", values![id]);
    Ok(calls)
}

pub(super) fn encoded_spec(session: &SessionRecord) -> Result<Vec<u8>, StoreError> {
    let mut body = Vec::new();
    spec_json::encode(&session.spec, &mut body).map_err(|error| unwritable(&error))?;
    Ok(body)
}

pub(super) async fn put(
    db: &Transaction<'_>,
    session: &SessionRecord,
    body: &[u8],
) -> Result<u64, PgError> {
    db.enter().await?;
    let id = session.id.as_uuid();
    let updated = db
        .execute(
            "UPDATE sessions SET revision = revision + 1, created_at = $3,
                updated_at = greatest(updated_at, $4), title = $5, native = $6, forked_from = $7,
                forked_after = $8, source = $9, cwd = $10, profile = $11, executor = $12
             WHERE id = $1 AND revision = $2",
            &[
                &id,
                &to_i64(session.revision),
                &nanoseconds(session.created_at),
                &nanoseconds(session.updated_at),
                &optional_bytes(session.title.as_ref()),
                &optional_bytes(session.native.as_ref().map(NativeSessionId::as_str)),
                &session.forked_from.map(SessionId::as_uuid),
                &session.forked_after.map(TurnId::as_uuid),
                &optional_bytes(session.source.as_ref().map(ToString::to_string)),
                &optional_bytes(session.spec.cwd.to_str()),
                &bytes(&session.spec.profile),
                &bytes(&session.spec.executor),
            ],
        )
        .await?;
    if updated == 0 {
        let found = db.query("SELECT 1 FROM sessions WHERE id = $1", &[&id]).await?;
        let is_there = !found.is_empty();
        let error = if is_there { StoreError::Conflict } else { StoreError::SESSION_NOT_FOUND };
        return Err(error.into());
    }
    // A long history is compared, but not written again when only the title changes.
    let spec = "UPDATE specs SET body = $2 WHERE session_id = $1 AND body <> $2";
    db.execute(spec, &[&id, &body]).await?;
    Ok(session.revision + 1)
}

pub(super) async fn delete(db: &Transaction<'_>, id: SessionId) -> Result<(), PgError> {
    let seen = StoredLease::read(db.connection, id, false).await?;
    seen.refuse_if_held(db.owner, db.machine)?;
    let session = id.as_uuid();
    // Claims are rows of everybody, so they come before the owner's row.
    db.execute(
        "DELETE FROM claims WHERE turn_id IN (SELECT id FROM turns WHERE session_id = $1)",
        &[&session],
    )
    .await?;
    take_over(db, id).await?;
    db.execute(
        "DELETE FROM events WHERE turn_id IN (SELECT id FROM turns WHERE session_id = $1)",
        &[&session],
    )
    .await?;
    db.execute("DELETE FROM sessions WHERE id = $1", &[&session]).await?;
    Ok(())
}

pub(super) async fn bind_name(
    db: &Transaction<'_>,
    name: &ExternalName,
    session: SessionId,
) -> Result<SessionId, PgError> {
    let (scope, text) = (name.scope.as_bytes(), name.name.as_bytes());
    db.execute(
        "INSERT INTO external_names (scope, name, session_id)
         SELECT $1, $2, id FROM sessions WHERE id = $3
         ON CONFLICT (sha256(scope), sha256(name)) DO NOTHING",
        &[&scope, &text, &session.as_uuid()],
    )
    .await?;
    // If the name is bound neither now nor before, there is no such session.
    let bound = db.query(FIND_BY_NAME, &[&scope, &text]).await?;
    let bound = bound.first().ok_or(StoreError::SESSION_NOT_FOUND)?;
    session_id(bound, 0)
}

/// SQL for the session with a name: scope and name.
pub(super) const FIND_BY_NAME: &str = "SELECT session_id FROM external_names
    WHERE sha256(scope) = sha256($1) AND sha256(name) = sha256($2)";

pub(super) async fn acquire(db: &Transaction<'_>, session: SessionId) -> Result<Lease, PgError> {
    let epoch = take_over(db, session).await?.epoch + 1;
    db.execute(
        "UPDATE leases SET owner = $2, epoch = $3 WHERE session_id = $1",
        &[&session.as_uuid(), &db.owner.id(), &epoch],
    )
    .await?;
    Ok(Lease { session, epoch: to_u64(epoch) })
}

/// Locks the lease of a session that no other living process owns, and sees to it that a dead one
/// cannot write to it any more.
async fn take_over(db: &Transaction<'_>, session: SessionId) -> Result<StoredLease, PgError> {
    let seen = StoredLease::read(db.connection, session, false).await?;
    seen.refuse_if_held(db.owner, db.machine)?;
    db.enter().await?;
    if let Some(dead) = seen.owner.as_deref().filter(|owner| *owner != db.owner.id()) {
        // Before the lease is locked: a write of the dead owner that is under way holds its row.
        owner_row::mark_dead(db.connection, dead, db.machine).await?;
    }
    let lease = StoredLease::read(db.connection, session, true).await?;
    // Somebody else may have been faster.
    lease.refuse_if_held(db.owner, db.machine)?;
    if let Some(dead) = lease.owner.as_deref().filter(|owner| *owner != db.owner.id())
        && lease.owner != seen.owner
    {
        owner_row::mark_dead(db.connection, dead, db.machine).await?;
    }
    Ok(lease)
}

pub(super) fn release(owner: &str, lease: &Lease) -> Calls {
    let mut calls = Calls::default();
    calls.add(
        "UPDATE leases SET owner = NULL WHERE session_id = $1 AND owner = $2 AND epoch = $3",
        values![lease.session.as_uuid(), owner.to_owned(), to_i64(lease.epoch)],
    );
    calls
}
