//! The statements of the writer. Each function is one job; all its reads and writes are in one
//! transaction.

use angelia_core::{
    model::{
        EventKind, ExternalName, NativeSessionId, Outcome, Seq, SessionId, SessionRecord,
        TurnEvent, TurnId, TurnRecord, TurnState, first_words,
    },
    ports::{Lease, LeaseHolder, StoreError},
};
use rusqlite::{
    OptionalExtension as _, Row, params,
    types::{ToSqlOutput, ValueRef},
};

use super::{
    approvals,
    columns::{
        self, history_words, nanoseconds, resumes_at, to_i64, to_u64, unfinished_state_text,
    },
    content_json,
    error::SqliteError,
    event_json, open_text, read, spec_json, usage,
    writer::Db,
};

type WriteResult<T = ()> = Result<T, SqliteError>;

pub(super) fn create_session(db: &Db, session: &SessionRecord) -> WriteResult {
    let id = session.id.as_uuid();
    let inserted = db
        .connection
        .prepare_cached(
            "INSERT INTO sessions (id, revision, created_at, updated_at, title, native, forked_from,
                    forked_after, source, cwd, profile, executor, first_words)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                coalesce(?13, (SELECT first_words FROM sessions WHERE id = ?7)))
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id.as_bytes(),
            to_i64(session.revision),
            nanoseconds(session.created_at),
            nanoseconds(session.updated_at),
            session.title,
            session.native.as_ref().map(NativeSessionId::as_str),
            session.forked_from.as_ref().map(|from| from.as_uuid().into_bytes()),
            session.forked_after.as_ref().map(|turn| turn.as_uuid().into_bytes()),
            session.source.as_ref().map(ToString::to_string),
            session.spec.cwd.to_str(),
            session.spec.profile,
            session.spec.executor,
            history_words(&session.spec),
        ])?;
    if inserted == 0 {
        return Err(StoreError::Conflict.into());
    }
    with_encoded_spec(db, session, |body| {
        db.connection
            .prepare_cached("INSERT INTO specs (session_id, body) VALUES (?1, ?2)")?
            .execute(params![id.as_bytes(), body])
    })?;
    db.connection
        .prepare_cached("INSERT INTO leases (session_id, owner, epoch) VALUES (?1, NULL, 0)")?
        .execute([id.as_bytes()])?;
    Ok(())
}

pub(super) fn put_session(db: &Db, session: &SessionRecord) -> WriteResult<u64> {
    let id = session.id.as_uuid();
    let updated = db
        .connection
        .prepare_cached(
            "UPDATE sessions SET revision = revision + 1, created_at = ?3,
                    updated_at = max(updated_at, ?4), title = ?5, native = ?6, forked_from = ?7,
                    forked_after = ?8, source = ?9, cwd = ?10, profile = ?11, executor = ?12
             WHERE id = ?1 AND revision = ?2",
        )?
        .execute(params![
            id.as_bytes(),
            to_i64(session.revision),
            nanoseconds(session.created_at),
            nanoseconds(session.updated_at),
            session.title,
            session.native.as_ref().map(NativeSessionId::as_str),
            session.forked_from.as_ref().map(|from| from.as_uuid().into_bytes()),
            session.forked_after.as_ref().map(|turn| turn.as_uuid().into_bytes()),
            session.source.as_ref().map(ToString::to_string),
            session.spec.cwd.to_str(),
            session.spec.profile,
            session.spec.executor,
        ])?;
    if updated == 0 {
        let exists = db
            .connection
            .prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?
            .exists([id.as_bytes()])?;
        return Err(
            if exists { StoreError::Conflict } else { StoreError::SESSION_NOT_FOUND }.into()
        );
    }
    // A long history is compared, but not written again when only the title changes.
    with_encoded_spec(db, session, |body| {
        db.connection
            .prepare_cached("UPDATE specs SET body = ?2 WHERE session_id = ?1 AND body <> ?2")?
            .execute(params![id.as_bytes(), body])
    })?;
    Ok(session.revision + 1)
}

pub(super) fn delete_session(db: &Db, id: SessionId) -> WriteResult {
    let Some((owner, _)) = read_lease(db, id)? else {
        return Err(StoreError::SESSION_NOT_FOUND.into());
    };
    refuse_if_held(db, owner.as_deref())?;
    db.connection
        .prepare_cached("DELETE FROM sessions WHERE id = ?1")?
        .execute([id.as_uuid().as_bytes()])?;
    Ok(())
}

pub(super) fn bind_name(
    db: &Db,
    name: &ExternalName,
    session: SessionId,
) -> WriteResult<SessionId> {
    db.connection
        .prepare_cached(
            "INSERT INTO external_names (scope, name, session_id)
             SELECT ?1, ?2, id FROM sessions WHERE id = ?3
             ON CONFLICT (scope, name) DO NOTHING",
        )?
        .execute(params![name.scope, name.name, session.as_uuid().as_bytes()])?;
    // If the name is bound neither now nor before, there is no such session.
    read::session_by_name(&db.connection, name)?.ok_or_else(|| StoreError::SESSION_NOT_FOUND.into())
}

pub(super) fn acquire(db: &Db, session: SessionId) -> WriteResult<Lease> {
    let Some((owner, epoch)) = read_lease(db, session)? else {
        return Err(StoreError::SESSION_NOT_FOUND.into());
    };
    refuse_if_held(db, owner.as_deref())?;
    let epoch = epoch + 1;
    db.connection
        .prepare_cached("UPDATE leases SET owner = ?2, epoch = ?3 WHERE session_id = ?1")?
        .execute(params![session.as_uuid().as_bytes(), db.owner.id(), to_i64(epoch)])?;
    Ok(Lease { session, epoch })
}

pub(super) fn release(db: &Db, lease: &Lease) -> WriteResult {
    db.connection
        .prepare_cached(
            "UPDATE leases SET owner = NULL WHERE session_id = ?1 AND owner = ?2 AND epoch = ?3",
        )?
        .execute(params![lease.session.as_uuid().as_bytes(), db.owner.id(), to_i64(lease.epoch)])?;
    Ok(())
}

pub(super) fn insert_turn(db: &Db, turn: &TurnRecord) -> WriteResult {
    let id = turn.id.as_uuid();
    let inserted = db
        .connection
        .prepare_cached(
            "INSERT INTO turns (id, session_id, created_at, state, origin, can_ask, can_park,
                    caller, max_cost_usd, resumes_at, charged_to, tool_choice, number)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                    (SELECT coalesce(max(number), 0) + 1 FROM turns))
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id.as_bytes(),
            turn.session.as_uuid().as_bytes(),
            nanoseconds(turn.created_at),
            unfinished_state_text(&turn.state)?,
            turn.options.origin.as_str(),
            turn.options.can_ask,
            turn.options.can_park,
            turn.options.caller,
            turn.options.max_cost_usd,
            resumes_at(&turn.state),
            turn.options.charged_to,
            columns::tool_choice_text(&turn.options.tool_choice),
        ])?;
    if inserted == 0 {
        return Err(StoreError::Conflict.into());
    }
    let body = content_json::encode(&turn.input)?;
    db.connection
        .prepare_cached("INSERT INTO inputs (turn_id, body) VALUES (?1, ?2)")?
        .execute(params![id.as_bytes(), body])?;
    db.connection
        .prepare_cached(
            "UPDATE sessions SET updated_at = max(updated_at, ?2), turns = turns + 1,
                    first_words = coalesce(first_words, ?3)
             WHERE id = ?1",
        )?
        .execute(params![
            turn.session.as_uuid().as_bytes(),
            nanoseconds(turn.created_at),
            first_words(&turn.input),
        ])?;
    Ok(())
}

pub(super) fn set_turn_state(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    state: &TurnState,
) -> WriteResult {
    check_open_turn(db, lease, turn)?;
    db.connection
        .prepare_cached("UPDATE turns SET state = ?2, resumes_at = ?3 WHERE id = ?1")?
        .execute(params![
            turn.as_uuid().as_bytes(),
            unfinished_state_text(state)?,
            resumes_at(state)
        ])?;
    Ok(())
}

pub(super) fn append(db: &Db, lease: &Lease, events: &[TurnEvent]) -> WriteResult {
    let mut insert = db.connection.prepare_cached(
        "INSERT INTO events (turn_id, seq, at, format, kind, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
    )?;
    let mut scratch = db.scratch.borrow_mut();
    let mut checked = None;
    for event in events {
        if checked != Some(event.turn) {
            check_open_turn(db, lease, event.turn)?;
            checked = Some(event.turn);
        }
        if !event.kind.is_stored() {
            continue;
        }
        scratch.clear();
        let kind = event_json::encode(&event.kind, &mut scratch)?;
        let inserted = insert.execute(params![
            event.turn.as_uuid().as_bytes(),
            to_i64(event.seq),
            nanoseconds(event.at),
            event_json::FORMAT_VERSION,
            kind,
            ToSqlOutput::Borrowed(ValueRef::Text(&scratch)),
        ])?;
        if inserted == 0 {
            return Err(StoreError::DuplicateEvent { seq: event.seq }.into());
        }
        usage::record_event(db, event)?;
        match &event.kind {
            EventKind::Finished(outcome) => {
                finish_turn(db, event, outcome)?;
                open_text::delete_turn(db, event.turn)?;
                // A further event of this turn must be checked again, and refused.
                checked = None;
            }
            _ => approvals::record_event(db, lease.session, event)?,
        }
    }
    Ok(())
}

/// Checks that the turn has events with these numbers.
pub(super) fn check_recorded(db: &Db, turn: TurnId, earlier: &[Seq]) -> WriteResult {
    for &seq in earlier {
        let sql = "SELECT 1 FROM events WHERE turn_id = ?1 AND seq = ?2";
        if !db
            .connection
            .prepare_cached(sql)?
            .exists(params![turn.as_uuid().as_bytes(), to_i64(seq)])?
        {
            return Err(StoreError::MissingEvent { seq }.into());
        }
    }
    Ok(())
}

fn finish_turn(db: &Db, event: &TurnEvent, outcome: &Outcome) -> WriteResult {
    let cost_usd = outcome.usage.cost_usd;
    db.connection
        .prepare_cached(
            "UPDATE turns SET state = 'finished', finished_seq = ?2, cost_usd = ?3,
                    resumes_at = NULL, status = ?4
             WHERE id = ?1",
        )?
        .execute(params![
            event.turn.as_uuid().as_bytes(),
            to_i64(event.seq),
            cost_usd,
            outcome.status.as_str()
        ])?;
    db.connection
        .prepare_cached(
            "UPDATE sessions SET updated_at = max(updated_at, ?2),
                    cost_usd = iif(?3 IS NULL, cost_usd, coalesce(cost_usd, 0) + ?3)
             WHERE id = ?1",
        )?
        .execute(params![event.session.as_uuid().as_bytes(), nanoseconds(event.at), cost_usd])?;
    Ok(())
}

/// Checks that the session exists and that this process holds the lease.
pub(super) fn check_session_lease(db: &Db, lease: &Lease) -> WriteResult {
    let Some((owner, epoch)) = read_lease(db, lease.session)? else {
        return Err(StoreError::SESSION_NOT_FOUND.into());
    };
    check_lease(db, lease, owner.as_deref(), epoch)
}

/// Checks that the turn belongs to the lease's session, that this process holds the lease, and that
/// the turn has not finished.
pub(super) fn check_open_turn(db: &Db, lease: &Lease, turn: TurnId) -> WriteResult {
    let mut select = db.connection.prepare_cached(
        "SELECT l.owner, l.epoch, t.finished_seq IS NOT NULL
         FROM turns t JOIN leases l ON l.session_id = t.session_id
         WHERE t.id = ?1 AND t.session_id = ?2",
    )?;
    let mut rows =
        select.query(params![turn.as_uuid().as_bytes(), lease.session.as_uuid().as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Err(StoreError::TURN_NOT_FOUND.into());
    };
    let owner = row.get_ref(0)?.as_str_or_null().unwrap_or_default();
    check_lease(db, lease, owner, to_u64(row.get(1)?))?;
    if row.get(2)? {
        return Err(StoreError::TurnFinished.into());
    }
    Ok(())
}

fn check_lease(db: &Db, lease: &Lease, owner: Option<&str>, epoch: u64) -> WriteResult {
    if owner == Some(db.owner.id()) && epoch == lease.epoch {
        Ok(())
    } else {
        Err(StoreError::LeaseLost.into())
    }
}

fn read_lease(db: &Db, session: SessionId) -> WriteResult<Option<(Option<String>, u64)>> {
    let found = db
        .connection
        .prepare_cached("SELECT owner, epoch FROM leases WHERE session_id = ?1")?
        .query_row([session.as_uuid().as_bytes()], |row: &Row<'_>| {
            Ok((row.get(0)?, to_u64(row.get(1)?)))
        })
        .optional()?;
    Ok(found)
}

/// Fails if another living process owns the session.
fn refuse_if_held(db: &Db, owner: Option<&str>) -> WriteResult {
    let owners = db.owner.registry();
    match owner {
        Some(owner) if owner != db.owner.id() && owners.is_alive(owner) => {
            let holder = owners
                .holder(owner)
                .unwrap_or_else(|| LeaseHolder { pid: 0, command: "(unknown)".to_owned() });
            Err(StoreError::Held(holder).into())
        }
        _ => Ok(()),
    }
}

/// Encodes the session's launch specification into the shared buffer and passes it to `write`.
fn with_encoded_spec(
    db: &Db,
    session: &SessionRecord,
    write: impl FnOnce(ToSqlOutput<'_>) -> rusqlite::Result<usize>,
) -> WriteResult {
    let mut scratch = db.scratch.borrow_mut();
    scratch.clear();
    spec_json::encode(&session.spec, &mut scratch)?;
    write(ToSqlOutput::Borrowed(ValueRef::Text(&scratch)))?;
    Ok(())
}

/// The number of bytes that [`write_check`] writes: enough to need new pages in the database and in
/// its log.
const WRITE_CHECK_BYTES: i64 = 32 << 10;

/// Writes about as much as the end of a turn does. [`delete_write_check`] must follow.
pub(super) fn write_check(db: &Db) -> WriteResult {
    db.connection
        .prepare_cached("INSERT OR REPLACE INTO write_checks (id, body) VALUES (1, zeroblob(?1))")?
        .execute([WRITE_CHECK_BYTES])?;
    Ok(())
}

pub(super) fn delete_write_check(db: &Db) -> WriteResult {
    db.connection.prepare_cached("DELETE FROM write_checks")?.execute([])?;
    Ok(())
}
