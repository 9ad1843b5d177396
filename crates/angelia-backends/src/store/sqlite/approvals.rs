//! Approvals: one row per approval, written together with the events that request and decide it.

use angelia_core::{
    model::{ApprovalId, ApprovalRecord, EventKind, Resolution, SessionId, TurnEvent, Verdict},
    ports::{ApprovalFilter, Page},
};
use rusqlite::{Connection, Row, params};

use super::{
    columns::{nanoseconds, parse_variant, session_id, timestamp, to_i64, turn_id, uuid},
    error::SqliteError,
    event_json,
    read::{column_text, page_bound, query_all},
    writer::Db,
};

/// Updates the table for an event that was just written.
pub(super) fn record_event(
    db: &Db,
    session: SessionId,
    event: &TurnEvent,
) -> Result<(), SqliteError> {
    match &event.kind {
        EventKind::Approval(approval) => insert_request(db, session, event, approval.id),
        EventKind::Resolved(resolution) => record_decision(db, event, resolution),
        _ => Ok(()),
    }
}

fn insert_request(
    db: &Db,
    session: SessionId,
    event: &TurnEvent,
    id: ApprovalId,
) -> Result<(), SqliteError> {
    // An approval that is requested again is still one approval.
    db.connection
        .prepare_cached(
            "INSERT INTO approvals (id, session_id, turn_id, asked_seq, asked_at)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id.as_uuid().as_bytes(),
            session.as_uuid().as_bytes(),
            event.turn.as_uuid().as_bytes(),
            to_i64(event.seq),
            nanoseconds(event.at),
        ])?;
    Ok(())
}

fn record_decision(db: &Db, event: &TurnEvent, resolution: &Resolution) -> Result<(), SqliteError> {
    // The first decision wins.
    db.connection
        .prepare_cached(
            "UPDATE approvals SET decided_at = ?3, verdict = ?4, decided_by = ?5
             WHERE id = ?1 AND turn_id = ?2 AND decided_at IS NULL",
        )?
        .execute(params![
            resolution.id.as_uuid().as_bytes(),
            event.turn.as_uuid().as_bytes(),
            nanoseconds(event.at),
            resolution.verdict.as_str(),
            resolution.by,
        ])?;
    Ok(())
}

pub(super) fn list_approvals(
    db: &Connection,
    which: ApprovalFilter,
    page: Page,
) -> Result<Vec<ApprovalRecord>, SqliteError> {
    let only = match which {
        ApprovalFilter::Pending => "AND a.decided_at IS NULL",
        ApprovalFilter::All => "",
    };
    let sql = format!(
        "SELECT a.id, a.session_id, a.turn_id, a.asked_at, a.decided_at, a.verdict, a.decided_by,
            e.format, e.kind, e.body
         FROM approvals a JOIN events e ON e.turn_id = a.turn_id AND e.seq = a.asked_seq
         WHERE a.id < ?1 {only} ORDER BY a.id DESC LIMIT ?2"
    );
    let before = page_bound(page);
    let parameters = params![before.as_bytes(), to_i64(page.limit)];
    let records = query_all(db, &sql, parameters, approval_record)?;
    Ok(records.into_iter().flatten().collect())
}

/// Converts a row. Returns `None` if the request was written by a later version in a form that this
/// version does not know.
fn approval_record(row: &Row<'_>) -> Result<Option<ApprovalRecord>, SqliteError> {
    let kind = event_json::decode(row.get(7)?, column_text(row, 8)?, column_text(row, 9)?);
    let EventKind::Approval(approval) = kind else {
        return Ok(None);
    };
    let decided = match row.get::<_, Option<i64>>(4)? {
        None => None,
        Some(at) => {
            let resolution = Resolution {
                id: ApprovalId::from_uuid(uuid(row, 0)?),
                verdict: parse_variant(&Verdict::ALL, Verdict::as_str, column_text(row, 5)?)?,
                by: column_text(row, 6)?.into(),
            };
            Some((resolution, timestamp(at)))
        }
    };
    Ok(Some(ApprovalRecord {
        approval,
        session: session_id(row, 1)?,
        turn: turn_id(row, 2)?,
        requested_at: timestamp(row.get(3)?),
        resolution: decided,
    }))
}
