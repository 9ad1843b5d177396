//! Writes the frames for clients, with the spaces that Python's `json.dumps` writes: clients of
//! hermes-bus get the same bytes as before.

use std::fmt::Display;

use angelia_core::{
    model::EndpointName,
    ports::bus::{BusError, Presence, PublishError, Receipt},
};
use angelia_wire::frame;
use uuid::Uuid;

use super::envelope::json_string;

pub(super) fn write_frame(out: &mut Vec<u8>, json: &str) {
    frame::encode(out, json.as_bytes());
}

/// Writes `registered`. `endpoint` is JSON.
pub(super) fn registered(out: &mut Vec<u8>, endpoint: &str, session: Uuid) {
    let reply =
        format!(r#"{{"type": "registered", "endpoint": {endpoint}, "session_id": "{session}"}}"#);
    write_frame(out, &reply);
}

/// Writes `pong`. With `acks`, it tells the client that it gets `accepted`, `delivered` and
/// `rejected`. Only a client that asked for them understands this.
pub(super) fn pong(out: &mut Vec<u8>, acks: bool) {
    let reply = if acks { r#"{"type": "pong", "ack": true}"# } else { r#"{"type": "pong"}"# };
    write_frame(out, reply);
}

pub(super) fn endpoints(out: &mut Vec<u8>, listening: &[(EndpointName, Uuid)]) {
    let listed: Vec<String> = listening
        .iter()
        .map(|(name, session)| format!(r#"{}: "{session}""#, json_string(name.as_str())))
        .collect();
    let listed = listed.join(", ");
    write_frame(out, &format!(r#"{{"type": "endpoints_list", "endpoints": {{{listed}}}}}"#));
}

/// Writes `error`, the only error frame that clients of hermes-bus know.
pub(super) fn error(out: &mut Vec<u8>, code: &str, detail: impl Display, id: Option<&str>) {
    let detail = json_string(&detail.to_string());
    let id = id.map_or(String::new(), |id| format!(r#", "id": {}"#, json_string(id)));
    write_frame(out, &format!(r#"{{"type": "error", "code": "{code}", "detail": {detail}{id}}}"#));
}

pub(super) fn accepted(out: &mut Vec<u8>, receipt: &Receipt) {
    frame::encode_with(out, |out| {
        out.extend_from_slice(br#"{"type": "accepted", "id": "#);
        write_json_string(out, &receipt.id);
        match receipt.presence {
            Presence::Listening => {}
            Presence::Away => out.extend_from_slice(br#", "queued": true"#),
            Presence::NeverSeen => out.extend_from_slice(br#", "queued": true, "seen": false"#),
        }
        if receipt.repeated {
            out.extend_from_slice(br#", "repeated": true"#);
        }
        out.push(b'}');
    });
}

pub(super) fn delivered(out: &mut Vec<u8>, id: &str) {
    frame::encode_with(out, |out| {
        out.extend_from_slice(br#"{"type": "delivered", "id": "#);
        write_json_string(out, id);
        out.push(b'}');
    });
}

/// Writes a JSON string. There are many ids, and nearly all are plain, so this avoids serializing
/// those.
fn write_json_string(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(json_string(text).as_bytes());
    }
}

pub(super) fn rejected(out: &mut Vec<u8>, id: Option<&str>, reason: &str, detail: impl Display) {
    let id = id.map_or_else(|| "null".to_owned(), json_string);
    let detail = json_string(&detail.to_string());
    write_frame(
        out,
        &format!(r#"{{"type": "rejected", "id": {id}, "reason": "{reason}", "detail": {detail}}}"#),
    );
}

pub(super) fn displaced(out: &mut Vec<u8>, name: &EndpointName) {
    let name = json_string(name.as_str());
    write_frame(out, &format!(r#"{{"type": "displaced", "endpoint": {name}}}"#));
}

/// Returns the `reason` of a refusal.
pub(super) fn reason_code(refusal: &PublishError) -> &'static str {
    match refusal {
        PublishError::Full { .. } | PublishError::BusFull { .. } => "full",
        PublishError::IdReused { .. } => "id_reused",
        PublishError::TooLarge { .. } => "too_large",
        PublishError::Storage(BusError::Closed) => "closing",
        PublishError::Storage(_) => "storage",
    }
}
