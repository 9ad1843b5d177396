//! Administrative frames for the owner: the status of the bus, and its dead letters.

use angelia_core::ports::bus::BusPosition;
use serde_json::{json, value::RawValue};

use super::{
    ListenerContext, reply,
    request::{FrameFields, parse_u64},
};

/// The limits on the dead letters in one answer: their number and their bytes.
const MAX_LISTED_LETTERS: usize = 100;
const MAX_LISTED_BYTES: usize = 4 * 1024 * 1024;

pub(super) fn status(out: &mut Vec<u8>, door: &ListenerContext) {
    let counts = door.bus.counts();
    let endpoints: Vec<_> = door
        .bus
        .endpoints()
        .into_iter()
        .map(|one| {
            json!({
                "endpoint": one.name.as_str(),
                "session_id": one.session.map(|session| session.to_string()),
                "queued": one.queued,
            })
        })
        .collect();
    let status = json!({
        "type": "status",
        "server": "angelia",
        "version": &*door.version,
        "pid": std::process::id(),
        "accepted": counts.accepted,
        "repeated": counts.repeated,
        "delivered": counts.delivered,
        "refused": counts.refused,
        "expired": counts.expired,
        "listening": counts.listening,
        "queued": counts.queued,
        "dead": counts.dead,
        "endpoints": endpoints,
    });
    reply::write_frame(out, &status.to_string());
}

pub(super) async fn dead_letters(
    out: &mut Vec<u8>,
    door: &ListenerContext,
    fields: &FrameFields<'_>,
) {
    let limit = parse_u64(fields.limit).and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(MAX_LISTED_LETTERS).min(MAX_LISTED_LETTERS);
    let before = parse_u64(fields.position).map(BusPosition);
    let letters = match door.bus.dead_letters(before, limit).await {
        Ok(letters) => letters,
        Err(error) => return reply::rejected(out, None, "storage", error),
    };
    let mut bytes = 0;
    let listed: Vec<_> = letters
        .iter()
        .take_while(|letter| {
            bytes += letter.message.envelope.len();
            bytes <= MAX_LISTED_BYTES
        })
        .map(|letter| {
            let message: Option<&RawValue> = serde_json::from_slice(&letter.message.envelope).ok();
            json!({
                "position": letter.position.0,
                "to": letter.to.as_str(),
                "reason": letter.reason,
                "at": letter.at.to_string(),
                "message": message,
            })
        })
        .collect();
    let answer = json!({"type": "dead_letters", "letters": listed});
    reply::write_frame(out, &answer.to_string());
}

pub(super) async fn resend(out: &mut Vec<u8>, door: &ListenerContext, fields: &FrameFields<'_>) {
    let Some(position) = parse_u64(fields.position) else {
        return reply::rejected(out, None, "malformed", "`position` is missing");
    };
    match door.bus.resend(BusPosition(position)).await {
        Ok(receipt) => reply::accepted(out, &receipt),
        Err(error) => reply::rejected(out, None, "not_sent", error),
    }
}

pub(super) async fn discard(out: &mut Vec<u8>, door: &ListenerContext, fields: &FrameFields<'_>) {
    let Some(position) = parse_u64(fields.position) else {
        return reply::rejected(out, None, "malformed", "`position` is missing");
    };
    match door.bus.discard(BusPosition(position)).await {
        Ok(()) => {
            reply::write_frame(
                out,
                &json!({"type": "discarded", "position": position}).to_string(),
            );
        }
        Err(error) => reply::rejected(out, None, "not_found", error),
    }
}
