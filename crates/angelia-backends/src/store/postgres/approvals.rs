//! Approvals: one row per approval, written together with the events that request and decide it.

use angelia_core::{
    model::{ApprovalId, ApprovalRecord, EventKind, Resolution, SessionId, TurnEvent, Verdict},
    ports::{ApprovalFilter, Page, StoreError},
};
use tokio_postgres::Row;

use super::{
    columns::{
        bytes, nanoseconds, optional_time, parse_variant, session_id, text, time, to_i64, turn_id,
        uuid, word,
    },
    error::PgError,
    groups::{Calls, values},
    read::page_bound,
    readers::Readers,
};
use crate::store::event_json;

/// Adds the statements for an event that was just written.
pub(super) fn record_event(calls: &mut Calls, session: SessionId, event: &TurnEvent) {
    match &event.kind {
        EventKind::Approval(approval) => insert_request(calls, session, event, approval.id),
        EventKind::Resolved(resolution) => record_decision(calls, event, resolution),
        _ => {}
    }
}

fn insert_request(calls: &mut Calls, session: SessionId, event: &TurnEvent, id: ApprovalId) {
    // An approval that is requested again is still one approval.
    calls.add(
        "INSERT INTO approvals (id, session_id, turn_id, asked_seq, asked_at)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        values![
            id.as_uuid(),
            session.as_uuid(),
            event.turn.as_uuid(),
            to_i64(event.seq),
            nanoseconds(event.at),
        ],
    );
}

fn record_decision(calls: &mut Calls, event: &TurnEvent, resolution: &Resolution) {
    // The first decision wins.
    calls.add(
        "UPDATE approvals SET decided_at = $3, verdict = $4, decided_by = $5
         WHERE id = $1 AND turn_id = $2 AND decided_at IS NULL",
        values![
            resolution.id.as_uuid(),
            event.turn.as_uuid(),
            nanoseconds(event.at),
            resolution.verdict.as_str(),
            bytes(&resolution.by),
        ],
    );
}

pub(super) async fn list(
    db: &Readers,
    which: ApprovalFilter,
    page: Page,
) -> Result<Vec<ApprovalRecord>, StoreError> {
    let only = match which {
        ApprovalFilter::Pending => "AND a.decided_at IS NULL",
        ApprovalFilter::All => "",
    };
    let sql = format!(
        "SELECT a.id, a.session_id, a.turn_id, a.asked_at, a.decided_at, a.verdict, a.decided_by,
            e.format, e.kind, e.body
         FROM approvals a JOIN events e ON e.turn_id = a.turn_id AND e.seq = a.asked_seq
         WHERE a.id < $1 {only} ORDER BY a.id DESC LIMIT $2"
    );
    let records = db.read(&sql, &[&page_bound(page), &to_i64(page.limit)], record).await?;
    Ok(records.into_iter().flatten().collect())
}

/// Converts a row. Returns `None` if the request was written by a later version in a form that this
/// version does not know.
fn record(row: &Row) -> Result<Option<ApprovalRecord>, PgError> {
    let format = i64::from(row.try_get::<_, i16>(7)?);
    let EventKind::Approval(approval) = event_json::decode(format, word(row, 8)?, text(row, 9)?)
    else {
        return Ok(None);
    };
    let decided = match optional_time(row, 4)? {
        None => None,
        Some(at) => {
            let resolution = Resolution {
                id: ApprovalId::from_uuid(uuid(row, 0)?),
                verdict: parse_variant(&Verdict::ALL, Verdict::as_str, word(row, 5)?)?,
                by: text(row, 6)?.into(),
            };
            Some((resolution, at))
        }
    };
    Ok(Some(ApprovalRecord {
        approval,
        session: session_id(row, 1)?,
        turn: turn_id(row, 2)?,
        requested_at: time(row, 3)?,
        resolution: decided,
    }))
}
