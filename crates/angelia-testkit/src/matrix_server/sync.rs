//! The long poll: what is new since a position, for each room.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{
    BOT, ServerState, Shared,
    requests::Outcome,
    rooms::{Room, display_name},
};
use crate::platform_server::PlatformRequest;

/// Number of events per room in a poll, unless the filter sets it.
const DEFAULT_LIMIT: usize = 10;

/// Parses a position.
pub(super) fn position(token: &str) -> Option<u64> {
    token.strip_prefix('s')?.parse().ok()
}

/// Holds the request until there is something new, or until it times out.
pub(super) fn poll(shared: &Shared, request: &PlatformRequest) -> Outcome {
    let since = match request.query.get("since") {
        None => None,
        Some(token) => match position(token) {
            Some(position) => Some(position),
            None => return Outcome::refusal(400, "M_UNKNOWN", "Invalid stream token"),
        },
    };
    let filter = request.query.get("filter").and_then(|text| serde_json::from_str(text).ok());
    let filter: Value = filter.unwrap_or_default();
    let limit = filter["room"]["timeline"]["limit"].as_u64();
    let limit = limit.map_or(DEFAULT_LIMIT, |limit| usize::try_from(limit).unwrap_or(0));
    let kinds: Option<Vec<&str>> = filter["room"]["timeline"]["types"]
        .as_array()
        .map(|kinds| kinds.iter().filter_map(Value::as_str).collect());
    let wait = request.query.get("timeout").and_then(|text| text.parse().ok()).unwrap_or(0);
    let deadline = Instant::now() + Duration::from_millis(wait);
    let Ok(mut state) = shared.state.lock() else { return Outcome::garbage() };
    match since {
        Some(since) => state.confirmed = state.confirmed.max(since),
        None => state.first_polls += 1,
    }
    loop {
        let is_repeat = state.repeats > 0 && since.is_some();
        let from = if is_repeat { Some(0) } else { since };
        let news =
            Poll { from, limit: if is_repeat { 1000 } else { limit }, kinds: kinds.as_deref() };
        let found = news.collect(&state);
        let is_over = Instant::now() >= deadline;
        if let Some(found) = found {
            if is_repeat {
                state.repeats -= 1;
            }
            if since.is_some() {
                state.delivered += 1;
            }
            return Outcome::ok(&found);
        }
        if is_over || since.is_none() {
            let next = format!("s{}", state.position);
            return Outcome::ok(&json!({"next_batch": next, "rooms": {}}));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((again, _)) = shared.changed.wait_timeout(state, left) else {
            return Outcome::garbage();
        };
        state = again;
    }
}

/// What a poll requests.
struct Poll<'a> {
    from: Option<u64>,
    limit: usize,
    kinds: Option<&'a [&'a str]>,
}

impl Poll<'_> {
    /// Returns what is new, or `None` if nothing is.
    fn collect(&self, state: &ServerState) -> Option<Value> {
        let (mut join, mut invite, mut leave) = (Map::new(), Map::new(), Map::new());
        for (id, room) in &state.rooms {
            let since = self.from.unwrap_or(0);
            match room.members.get(BOT).map(String::as_str) {
                Some("join") => {
                    if let Some(news) = self.read_room(room) {
                        join.insert(id.clone(), news);
                    }
                }
                Some("invite")
                    if room
                        .events
                        .iter()
                        .any(|(at, event)| *at > since && event["state_key"] == BOT) =>
                {
                    let events: Vec<&Value> = room
                        .events
                        .iter()
                        .map(|(_, event)| event)
                        .filter(|event| event["state_key"] == BOT)
                        .collect();
                    invite.insert(id.clone(), json!({"invite_state": {"events": events}}));
                }
                Some("leave") if room.events.last().is_some_and(|(at, _)| *at > since) => {
                    leave.insert(id.clone(), json!({"timeline": {"events": []}}));
                }
                _ => {}
            }
        }
        let is_empty = join.is_empty() && invite.is_empty() && leave.is_empty();
        (!is_empty).then(|| {
            json!({
                "next_batch": format!("s{}", state.position),
                "rooms": {"join": join, "invite": invite, "leave": leave},
                "device_one_time_keys_count": {}, "presence": {"events": []},
            })
        })
    }

    fn read_room(&self, room: &Room) -> Option<Value> {
        let is_wanted = |event: &Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            self.kinds.is_none_or(|kinds| kinds.contains(&kind))
        };
        // A member who has just joined sees earlier events.
        let since = self.from.filter(|since| room.joined_at <= *since || *since == 0);
        let from = since.unwrap_or(0);
        let all: Vec<&(u64, Value)> =
            room.events.iter().filter(|(at, event)| *at > from && is_wanted(event)).collect();
        let is_new = self.from.is_none_or(|from| room.events.iter().any(|(at, _)| *at > from));
        if !is_new {
            return None;
        }
        let kept = &all[all.len().saturating_sub(self.limit)..];
        let is_limited = kept.len() < all.len();
        let before = kept.first().map_or(from, |(at, _)| at - 1);
        let joined: Vec<&String> =
            room.members.iter().filter(|(_, how)| *how == "join").map(|(user, _)| user).collect();
        let members: Vec<Value> = joined
            .iter()
            .map(|user| {
                json!({
                    "type": "m.room.member", "state_key": user, "sender": user,
                    "event_id": format!("$member-{user}"), "origin_server_ts": 1,
                    "content": {"membership": "join", "displayname": display_name(user)},
                })
            })
            .collect();
        let events: Vec<&Value> = kept.iter().map(|(_, event)| event).collect();
        Some(json!({
            "timeline": {
                "events": events, "limited": is_limited, "prev_batch": format!("s{before}"),
            },
            "state": {"events": if since.is_none() { members } else { Vec::new() }},
            "account_data": {"events": []}, "ephemeral": {"events": []},
            "summary": {"m.joined_member_count": joined.len()}, "unread_notifications": {},
        }))
    }
}
