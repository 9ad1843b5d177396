//! The requests of the client-server API, and how they are refused.

use serde_json::{Value, json};

use super::{BOT, SERVER_NAME, ServerState, TOKEN, rooms::display_name, sync::position};
use crate::platform_server::{PlatformAnswer, PlatformRequest};

/// Maximum size of an event.
const MAX_EVENT: usize = 65_535;

const MAX_FILE: usize = 50 << 20;

/// An answer. Status 0 cuts the connection.
pub(super) struct Outcome {
    pub(super) status: u16,
    kind: String,
    body: Vec<u8>,
    retry_after: Option<u64>,
}

impl Outcome {
    fn json(status: u16, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        Self { status, kind: "application/json".to_owned(), body, retry_after: None }
    }

    pub(super) fn ok(body: &Value) -> Self {
        Self::json(200, body)
    }

    pub(super) fn refusal(status: u16, code: &str, why: &str) -> Self {
        Self::json(status, &json!({"errcode": code, "error": why}))
    }

    pub(super) fn limited(wait: u64) -> Self {
        let body = json!({
            "errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": wait,
        });
        Self { retry_after: Some(wait.div_ceil(1000)), ..Self::json(429, &body) }
    }

    pub(super) fn garbage() -> Self {
        let body = b"<html>bad gateway".to_vec();
        Self { status: 502, kind: "text/html".to_owned(), body, retry_after: None }
    }

    /// Cuts the connection without an answer.
    pub(super) fn cut() -> Self {
        Self { status: 0, ..Self::garbage() }
    }

    pub(super) fn into_answer(self) -> Option<PlatformAnswer> {
        if self.status == 0 {
            return None;
        }
        let answer = PlatformAnswer::bytes(self.status, &self.kind, self.body);
        Some(match self.retry_after {
            Some(seconds) => answer.with_header("retry-after", &seconds.to_string()),
            None => answer,
        })
    }
}

/// Returns the parts of the path after the API's own prefix.
fn parts_of(request: &PlatformRequest) -> Vec<&str> {
    request.path.split('/').filter(|part| !part.is_empty()).skip(2).collect()
}

/// Returns the name of a request: its method and action.
pub(super) fn name_of(request: &PlatformRequest) -> String {
    let parts = parts_of(request);
    let action = match parts.as_slice() {
        ["versions"] => "versions",
        [_, "account", "whoami"] => "whoami",
        [_, "rooms", _, action, ..] | [_, "media", action, ..] | [_, action, ..] => action,
        _ => "nothing",
    };
    format!("{} {action}", request.method)
}

pub(super) fn check_token(request: &PlatformRequest) -> Result<(), Outcome> {
    let given = request.header("authorization").strip_prefix("Bearer ");
    match given.or_else(|| request.query.get("access_token").map(String::as_str)) {
        Some(TOKEN) => Ok(()),
        Some(_) => Err(Outcome::json(
            401,
            &json!({
                "errcode": "M_UNKNOWN_TOKEN", "error": "Invalid access token passed.",
                "soft_logout": false,
            }),
        )),
        None => Err(Outcome::refusal(401, "M_MISSING_TOKEN", "Missing access token")),
    }
}

pub(super) fn answer_request(
    state: &mut ServerState,
    name: &str,
    request: &PlatformRequest,
) -> Outcome {
    if name == "GET versions" {
        return Outcome::ok(&json!({"versions": ["v1.1", "v1.11", "v1.13"]}));
    }
    let parts = parts_of(request);
    let is_open = state.has_old_media && name == "GET download" && parts[0] == "v3";
    if !is_open && let Err(refusal) = check_token(request) {
        return refusal;
    }
    match (name, parts.as_slice()) {
        ("GET whoami", _) => {
            Outcome::ok(&json!({"user_id": BOT, "device_id": "FAKEDEVICE", "is_guest": false}))
        }
        ("GET profile", [_, _, user, ..]) => {
            Outcome::ok(&json!({"displayname": display_name(user)}))
        }
        ("GET joined_rooms", _) => {
            let rooms = state.rooms.iter().filter(|(_, room)| room.has_bot());
            let rooms: Vec<&String> = rooms.map(|(id, _)| id).collect();
            Outcome::ok(&json!({"joined_rooms": rooms}))
        }
        ("POST join", [_, "join", room] | [_, "rooms", room, "join"]) => join(state, room),
        ("POST upload", _) => upload(state, request),
        ("GET download", [version, .., server, id]) => download(state, version, server, id),
        (_, [_, "rooms", room, ..]) => answer_in_room(state, name, room, request),
        _ => Outcome::refusal(404, "M_UNRECOGNIZED", "Unrecognized request"),
    }
}

fn join(state: &mut ServerState, room: &str) -> Outcome {
    let membership = state.rooms.get(room).and_then(|room| room.members.get(BOT));
    match membership.map(String::as_str) {
        Some("join") => {}
        Some("invite") => state.set_member(room, BOT, BOT, "join"),
        _ => return Outcome::refusal(403, "M_FORBIDDEN", "You are not invited to this room."),
    }
    Outcome::ok(&json!({"room_id": room}))
}

fn upload(state: &mut ServerState, request: &PlatformRequest) -> Outcome {
    if request.body.len() > MAX_FILE {
        return Outcome::refusal(413, "M_TOO_LARGE", "Upload request body is too large");
    }
    let id = format!("upload{}", state.media.len());
    let kind = request.header("content-type").to_owned();
    state.media.insert(id.clone(), (kind, request.body.clone()));
    Outcome::ok(&json!({"content_uri": format!("mxc://{SERVER_NAME}/{id}")}))
}

fn download(state: &ServerState, version: &str, server: &str, id: &str) -> Outcome {
    if state.has_old_media != (version == "v3") {
        return Outcome::refusal(404, "M_UNRECOGNIZED", "Unrecognized request");
    }
    match state.media.get(id).filter(|_| server == SERVER_NAME) {
        Some((kind, bytes)) => {
            Outcome { status: 200, kind: kind.clone(), body: bytes.clone(), retry_after: None }
        }
        None => Outcome::refusal(404, "M_NOT_FOUND", "Not found"),
    }
}

fn answer_in_room(
    state: &mut ServerState,
    name: &str,
    room_id: &str,
    request: &PlatformRequest,
) -> Outcome {
    let Some(room) = state.rooms.get_mut(room_id).filter(|room| room.has_bot()) else {
        let why = format!("User {BOT} not in room {room_id}");
        return Outcome::refusal(403, "M_FORBIDDEN", &why);
    };
    let parts = parts_of(request);
    match (name, parts.as_slice()) {
        ("GET joined_members", _) => {
            let joined = room.members.iter().filter(|(_, membership)| *membership == "join");
            let joined: serde_json::Map<String, Value> = joined
                .map(|(user, _)| (user.clone(), json!({"display_name": display_name(user)})))
                .collect();
            Outcome::ok(&json!({"joined": joined}))
        }
        ("GET event", [.., id]) => match room.bundled(id) {
            Some(event) => Outcome::ok(&event),
            None => Outcome::refusal(404, "M_NOT_FOUND", "Could not find event"),
        },
        ("GET state", [.., "m.room.encryption"]) => {
            if room.is_encrypted {
                return Outcome::ok(&json!({"algorithm": "m.megolm.v1.aes-sha2"}));
            }
            Outcome::refusal(404, "M_NOT_FOUND", "Event not found.")
        }
        ("GET messages", _) => {
            let bound = |key: &str| request.query.get(key).and_then(|text| position(text));
            let (from, to) = (bound("from").unwrap_or(u64::MAX), bound("to").unwrap_or(0));
            let limit = request.query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(10);
            let found: Vec<&(u64, Value)> =
                room.events.iter().rev().filter(|(at, _)| *at <= from && *at > to).collect();
            let kept = &found[..found.len().min(limit)];
            let chunk: Vec<&Value> = kept.iter().map(|(_, event)| event).collect();
            let mut answer = json!({"chunk": chunk, "start": format!("s{from}")});
            if let Some((at, _)) = kept.last().filter(|_| kept.len() < found.len()) {
                answer["end"] = format!("s{}", at - 1).into();
            }
            Outcome::ok(&answer)
        }
        ("PUT typing", _) => {
            room.is_bot_typing = request.fields["typing"] == true;
            Outcome::ok(&json!({}))
        }
        ("PUT send", [.., kind, _transaction]) => send(state, room_id, kind, request),
        ("PUT redact", [.., target, _transaction]) => {
            let id = state.redact(room_id, BOT, target);
            Outcome::ok(&json!({"event_id": id}))
        }
        _ => Outcome::refusal(404, "M_UNRECOGNIZED", "Unrecognized request"),
    }
}

fn send(state: &mut ServerState, room: &str, kind: &str, request: &PlatformRequest) -> Outcome {
    if let Some(id) = state.transactions.get(&request.path) {
        return Outcome::ok(&json!({"event_id": id}));
    }
    if let Some(Err(wait)) = state.bucket.as_mut().map(super::Bucket::take) {
        return Outcome::limited(wait);
    }
    let content = &request.fields;
    if !content.is_object() {
        return Outcome::refusal(400, "M_NOT_JSON", "Content not JSON.");
    }
    if content.to_string().len() > MAX_EVENT {
        return Outcome::refusal(413, "M_TOO_LARGE", "event too large");
    }
    let relation = &content["m.relates_to"];
    let is_known = state.rooms.get(room).is_some_and(|room| {
        room.events.iter().any(|(_, event)| {
            event["sender"] == BOT
                && event["type"] == "m.reaction"
                && event["content"]["m.relates_to"] == *relation
        })
    });
    if kind == "m.reaction" && is_known {
        let why = "Can't send same reaction twice";
        return Outcome::refusal(400, "M_DUPLICATE_ANNOTATION", why);
    }
    if kind == "m.room.message" && !(content["msgtype"].is_string() && content["body"].is_string())
    {
        return Outcome::refusal(400, "M_BAD_JSON", "a message needs `msgtype` and `body`");
    }
    let id = state.add_event(room, BOT, kind, content.clone(), None);
    state.transactions.insert(request.path.clone(), id.clone());
    Outcome::ok(&json!({"event_id": id}))
}
