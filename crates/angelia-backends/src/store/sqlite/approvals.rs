//! Approvals: one row per approval, written together with the events that request and decide it.

use angelia_core::{
    model::{ApprovalId, ApprovalRecord, EventKind, Resolution, SessionId, TurnEvent, Verdict},
    ports::{Approvals, Page},
};
use rusqlite::{Connection, Row, params};

use super::{
    event_json,
    read::{before, list, text},
    trouble::Trouble,
    words::{nanoseconds, number, session_id, time, turn_id, uuid, word},
    writer::Db,
};

/// Updates the table for an event that was just written.
pub(super) fn follow(db: &Db, session: SessionId, event: &TurnEvent) -> Result<(), Trouble> {
    match &event.kind {
        EventKind::Approval(approval) => asked(db, session, event, approval.id),
        EventKind::Resolved(resolution) => decided(db, event, resolution),
        _ => Ok(()),
    }
}

fn asked(db: &Db, session: SessionId, event: &TurnEvent, id: ApprovalId) -> Result<(), Trouble> {
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
            number(event.seq),
            nanoseconds(event.at),
        ])?;
    Ok(())
}

fn decided(db: &Db, event: &TurnEvent, resolution: &Resolution) -> Result<(), Trouble> {
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

pub(super) fn approvals(
    db: &Connection,
    which: Approvals,
    page: Page,
) -> Result<Vec<ApprovalRecord>, Trouble> {
    let only = match which {
        Approvals::Pending => "AND a.decided_at IS NULL",
        Approvals::All => "",
    };
    let sql = format!(
        "SELECT a.id, a.session_id, a.turn_id, a.asked_at, a.decided_at, a.verdict, a.decided_by,
            e.format, e.kind, e.body
         FROM approvals a JOIN events e ON e.turn_id = a.turn_id AND e.seq = a.asked_seq
         WHERE a.id < ?1 {only} ORDER BY a.id DESC LIMIT ?2"
    );
    let before = before(page);
    let parameters = params![before.as_bytes(), number(page.limit)];
    let records = list(db, &sql, parameters, record)?;
    Ok(records.into_iter().flatten().collect())
}

/// Converts a row. Returns `None` if the request was written by a later version in a form that this
/// version does not know.
fn record(row: &Row<'_>) -> Result<Option<ApprovalRecord>, Trouble> {
    let kind = event_json::decode(row.get(7)?, text(row, 8)?, text(row, 9)?);
    let EventKind::Approval(approval) = kind else {
        return Ok(None);
    };
    let decided = match row.get::<_, Option<i64>>(4)? {
        None => None,
        Some(at) => {
            let resolution = Resolution {
                id: ApprovalId::from_uuid(uuid(row, 0)?),
                verdict: word(&Verdict::ALL, Verdict::as_str, text(row, 5)?)?,
                by: text(row, 6)?.into(),
            };
            Some((resolution, time(at)))
        }
    };
    Ok(Some(ApprovalRecord {
        approval,
        session: session_id(row, 1)?,
        turn: turn_id(row, 2)?,
        asked_at: time(row.get(3)?),
        decided,
    }))
}
