//! The answer to a poll: the news of each room. Pure. Unreadable events are skipped.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{RoomEvent, RoomEventKind, decode_event};

/// The result of a poll.
#[derive(Debug)]
pub(super) struct SyncBatch {
    /// Where the next poll continues.
    pub(super) next: Arc<str>,
    pub(super) rooms: Vec<RoomBatch>,
    pub(super) invitations: Vec<Arc<str>>,
    /// The rooms that the bot is no longer in.
    pub(super) left: Vec<Arc<str>>,
}

/// The news of one room.
#[derive(Debug)]
pub(super) struct RoomBatch {
    pub(super) room: Arc<str>,
    pub(super) events: Vec<RoomEvent>,
    /// Whether the members have changed.
    pub(super) has_new_members: bool,
    /// Set if events are missing before these; names the position from which to request them.
    pub(super) gap: Option<Arc<str>>,
}

impl SyncBatch {
    /// Reads a response. Returns `None` if it is not one to a poll.
    pub(super) fn read(answer: &Value, bot: &str) -> Option<Self> {
        let next = answer["next_batch"].as_str()?.into();
        let rooms = |kind: &str| answer["rooms"][kind].as_object().into_iter().flatten();
        let names = |kind: &str| rooms(kind).map(|(room, _)| room.as_str().into()).collect();
        Some(Self {
            next,
            rooms: rooms("join").map(|(room, news)| RoomBatch::read(room, news, bot)).collect(),
            invitations: names("invite"),
            left: names("leave"),
        })
    }
}

impl RoomBatch {
    fn read(room: &str, news: &Value, bot: &str) -> Self {
        let timeline = &news["timeline"];
        let mut events = read_events(&timeline["events"]);
        let state = read_events(&news["state"]["events"]);
        let mut members = state.iter().chain(&events).filter_map(|event| event.membership());
        let has_new_members = members.next().is_some();
        let is_own = |kind: &RoomEventKind| match kind {
            RoomEventKind::Member { person, is_joined, was_joined } => {
                **person == *bot && *is_joined && !was_joined
            }
            _ => false,
        };
        let is_joined_now = events.iter().any(|event| is_own(&event.kind));
        if is_joined_now {
            drop_history(&mut events, bot);
        }
        let is_cut = timeline["limited"] == true && !is_joined_now;
        let gap = timeline["prev_batch"].as_str().filter(|_| is_cut).map(Into::into);
        Self { room: room.into(), events, has_new_members, gap }
    }
}

/// Drops the history that a new member gets to see. The bot handles only what came after its invitation or, if
/// that is not visible, after it joined.
fn drop_history(events: &mut Vec<RoomEvent>, bot: &str) {
    let first = events.iter().position(|event| match &event.kind {
        RoomEventKind::Member { person, was_joined, .. } => **person == *bot && !was_joined,
        _ => false,
    });
    if let Some(first) = first {
        events.drain(..first);
    }
}

/// Decodes events and skips those that are unreadable.
pub(super) fn read_events(list: &Value) -> Vec<RoomEvent> {
    list.as_array().into_iter().flatten().filter_map(decode_event).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(person: &str, membership: &str) -> Value {
        json!({
            "event_id": format!("${person}-{membership}"), "type": "m.room.member", "sender": "@a:x",
            "state_key": person, "content": {"membership": membership}, "origin_server_ts": 1,
        })
    }

    fn message(id: &str) -> Value {
        json!({
            "event_id": id, "type": "m.room.message", "sender": "@a:x", "origin_server_ts": 1,
            "content": {"msgtype": "m.text", "body": "words"},
        })
    }

    fn read(events: &Value, is_limited: bool) -> RoomBatch {
        let answer = json!({"next_batch": "s2", "rooms": {"join": {"!r:x": {
            "timeline": {"events": events, "limited": is_limited, "prev_batch": "s1"},
        }}}});
        SyncBatch::read(&answer, "@bot:x").unwrap().rooms.remove(0)
    }

    #[test]
    fn what_was_written_before_the_bot_was_invited_is_history() {
        let bot = "@bot:x";
        let ids = |batch: &RoomBatch| -> Vec<String> {
            let kept = batch.events.iter().filter(|event| event.membership().is_none());
            kept.map(|event| event.id.to_string()).collect()
        };
        let all = json!([
            message("$old"),
            member(bot, "invite"),
            message("$hello"),
            member(bot, "join"),
            message("$new")
        ]);
        let batch = read(&all, true);
        assert!(batch.has_new_members && batch.gap.is_none());
        assert_eq!(ids(&batch), ["$hello", "$new"]);
        let public = read(&json!([message("$old"), member(bot, "join"), message("$new")]), false);
        assert_eq!(ids(&public), ["$new"]);
        let mut renamed = member(bot, "join");
        renamed["unsigned"] = json!({"prev_content": {"membership": "join"}});
        let usual = read(&json!([message("$one"), renamed, 7, {"type": 1}]), true);
        assert_eq!((ids(&usual), usual.gap.as_deref()), (vec!["$one".to_owned()], Some("s1")));
        assert!(SyncBatch::read(&json!({"rooms": {}}), bot).is_none());
    }
}
