//! The long poll. Each batch is stored before the next poll, which acknowledges it. The bot accepts
//! invitations, and requests the events that did not fit into a batch after a long absence.

use std::{convert::Infallible, sync::Arc, time::Duration};

use angelia_core::ports::{
    ButtonPress, ConnectionError, ConnectionErrorKind, EventInbox, InboundEvent, InboundKind,
    SendErrorKind,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    adapter::{Matrix, SERVER},
    buttons::read_choice,
    decode::{MatrixBot, RoomEvent, RoomEventKind, chat_name, sender_of},
    rooms::{KnownMessage, RepliedEvent, RoomMembers},
    sync_batch::{RoomBatch, SyncBatch, read_events},
};
use crate::chat::bearer_api::{ApiRequest, BearerError};

/// How long a poll waits for an event.
const POLL_WAIT: Duration = Duration::from_secs(30);

/// How long a poll waits while an invitation or a notice must be retried.
const RETRY_WAIT: Duration = Duration::from_secs(3);

/// The limit on events per room in one poll.
const MAX_EVENTS: u32 = 100;

/// How many pages of a room's history are read to close a gap.
const MAX_PAGES: usize = 10;

/// How often we try to accept an invitation. Rooms on other servers may be unreachable for a while.
const MAX_JOINS: usize = 5;

/// The event types that we handle.
const KINDS: [&str; 5] =
    ["m.room.message", "m.reaction", "m.room.redaction", "m.room.encrypted", "m.room.member"];

const UNREADABLE: &str = "This room is encrypted, and I cannot read encrypted messages. Please make a room \
                          without encryption, and invite me there.";

/// An invitation that is not accepted yet.
struct Invitation {
    room: Arc<str>,
    tries: usize,
}

impl Matrix {
    pub(super) async fn poll(
        &self,
        cursor: Option<Arc<str>>,
        inbox: &dyn EventInbox,
    ) -> Result<Infallible, ConnectionError> {
        let bot = self.identity().await?;
        let mut since = cursor;
        let mut invitations: Vec<Invitation> = Vec::new();
        // The encrypted rooms whose people must still learn that we cannot read them.
        let mut unreadable: Vec<Arc<str>> = Vec::new();
        loop {
            let is_idle = invitations.is_empty() && unreadable.is_empty();
            let wait = if is_idle { POLL_WAIT } else { RETRY_WAIT };
            let answer = match self.ask_for_news(since.as_deref(), wait).await {
                // The server was reset, or the cursor comes from another server.
                Err(BearerError::Refused(refusal)) if refusal.status == 400 && since.is_some() => {
                    tracing::warn!(
                        "{SERVER} does not know where we stopped; what came since is lost"
                    );
                    since = None;
                    continue;
                }
                answer => answer?,
            };
            let batch = SyncBatch::read(&answer, &bot.id).ok_or_else(|| {
                let message = format!("{SERVER} answered a poll with something else");
                ConnectionError::new(ConnectionErrorKind::Lost, message)
            })?;
            let mut events = Vec::new();
            for room in &batch.rooms {
                if room.has_new_members {
                    self.rooms.lock().forget_members(&room.room);
                }
                // Ignore what was written before the bot first connected.
                if let Some(since) = &since {
                    let found = self.read_room(&bot, room, since).await?;
                    if found.is_unreadable && !unreadable.contains(&room.room) {
                        unreadable.push(Arc::clone(&room.room));
                    }
                    events.extend(found.events);
                }
            }
            for room in &batch.left {
                self.rooms.lock().forget_members(room);
            }
            let stored = inbox.accept(events, Some(Arc::clone(&batch.next))).await;
            stored.map_err(|error| {
                let message = format!("the events could not be stored: {error}");
                ConnectionError::new(ConnectionErrorKind::Lost, message)
            })?;
            inbox.note_alive();
            // The next poll acknowledges the events.
            since = Some(batch.next);
            unreadable = self.say_unreadable(unreadable).await;
            let new = batch.invitations.into_iter().map(|room| Invitation { room, tries: 0 });
            invitations.extend(new);
            invitations = self.accept_invitations(invitations).await;
        }
    }

    async fn ask_for_news(
        &self,
        since: Option<&str>,
        wait: Duration,
    ) -> Result<Value, BearerError> {
        let none = json!({"types": []});
        let filter = json!({
            "room": {
                "timeline": {"limit": MAX_EVENTS, "types": KINDS},
                "state": {"types": ["m.room.member"], "lazy_load_members": true},
                "ephemeral": none, "account_data": none,
            },
            "presence": none, "account_data": none,
        });
        let request = ApiRequest::get(&["sync"]).with("filter", filter.to_string());
        let request = match since {
            Some(since) => {
                let request = request.with("since", since).wait(wait);
                request.with("timeout", wait.as_millis().to_string())
            }
            // The first answer covers every room and takes longer.
            None => request.with("timeout", "0").wait(POLL_WAIT * 2),
        };
        self.api.call(&request, &Value::Null).await
    }

    async fn read_room(
        &self,
        bot: &MatrixBot,
        batch: &RoomBatch,
        since: &str,
    ) -> Result<RoomNews, ConnectionError> {
        let mut events = match &batch.gap {
            Some(gap) => self.close_gap(&batch.room, gap, since).await?,
            None => Vec::new(),
        };
        events.extend(batch.events.iter().cloned());
        let mut news = RoomNews::default();
        for event in events {
            if event.sender == bot.id || event.membership().is_some() {
                continue;
            }
            let members = self.members(&batch.room).await?;
            let is_unreadable = event.kind == RoomEventKind::Encrypted && members.is_pair();
            news.is_unreadable |= is_unreadable;
            news.events.extend(self.translate(bot, &batch.room, &members, event).await?);
        }
        Ok(news)
    }

    /// Returns the events of a room between the last batch and this one, oldest first.
    async fn close_gap(
        &self,
        room: &str,
        gap: &str,
        since: &str,
    ) -> Result<Vec<RoomEvent>, ConnectionError> {
        let mut from = gap.to_owned();
        let mut events = Vec::new();
        for _ in 0..MAX_PAGES {
            let request = ApiRequest::get(&["rooms", room, "messages"]);
            let request = request.with("dir", "b").with("from", from.as_str()).with("to", since);
            let request = request.with("limit", MAX_EVENTS.to_string());
            let Some(page) = self.api.find(&request).await? else { break };
            events.extend(read_events(&page["chunk"]));
            let Some(end) = page["end"].as_str() else { break };
            end.clone_into(&mut from);
        }
        events.reverse();
        Ok(events)
    }

    /// Converts an event of a person. Returns `None` if it is not for us.
    async fn translate(
        &self,
        bot: &MatrixBot,
        room: &Arc<str>,
        members: &RoomMembers,
        event: RoomEvent,
    ) -> Result<Option<InboundEvent>, ConnectionError> {
        let (chat, kind) = match event.kind.clone() {
            RoomEventKind::Message(message) => {
                let chat = chat_name(room, message.thread.as_deref());
                self.rooms.lock().note_message(KnownMessage {
                    id: Arc::clone(&event.id),
                    chat: Arc::clone(&chat),
                    sender: Arc::clone(&event.sender),
                });
                let replied = self.replied(room, message.reply_to.as_deref()).await?;
                let message = message.into_inbound(&event, bot, members, replied.as_ref());
                (chat, InboundKind::Message(message))
            }
            RoomEventKind::Edit { of, new } => {
                let original = self.find_event(room, &of).await?;
                let original = original.as_ref().and_then(RepliedEvent::read);
                // Servers accept edits from anybody, so check that the author is the same.
                let Some(original) = original.filter(|one| one.sender == event.sender) else {
                    return Ok(None);
                };
                // The edit does not say which thread it is in or what it answers.
                let replied = self.replied(room, original.reply_to.as_deref()).await?;
                let mut message = new.into_inbound(&event, bot, members, replied.as_ref());
                message.id = of;
                (chat_name(room, original.thread.as_deref()), InboundKind::Edited(message))
            }
            RoomEventKind::Reaction { of, key } => {
                let Some(card) = self.find_event(room, &of).await? else { return Ok(None) };
                let Some(value) = read_choice(&card, &bot.id, &key) else { return Ok(None) };
                let thread = RepliedEvent::read(&card).and_then(|card| card.thread);
                let chat = chat_name(room, thread.as_deref());
                let press = ButtonPress {
                    id: format!("{chat} {of} {}", event.sender).into(),
                    value,
                    message_id: Some(of),
                    is_direct: members.is_direct(&bot.id, &event.sender),
                };
                (chat, InboundKind::Press(press))
            }
            RoomEventKind::Redaction { of } => {
                let known = self.rooms.lock().find_message(&of);
                match known.filter(|known| known.sender == event.sender) {
                    Some(known) => (known.chat, InboundKind::Deleted(of)),
                    None => return Ok(None),
                }
            }
            RoomEventKind::Encrypted | RoomEventKind::Member { .. } => return Ok(None),
        };
        let sender = sender_of(&event.sender, members);
        Ok(Some(InboundEvent { dedupe_key: event.id, chat, sender, kind }))
    }

    /// Returns the message that another one answers.
    async fn replied(
        &self,
        room: &str,
        id: Option<&str>,
    ) -> Result<Option<RepliedEvent>, ConnectionError> {
        let Some(id) = id else { return Ok(None) };
        Ok(self.find_event(room, id).await?.as_ref().and_then(RepliedEvent::read))
    }

    async fn find_event(&self, room: &str, id: &str) -> Result<Option<Value>, ConnectionError> {
        Ok(self.api.find(&ApiRequest::get(&["rooms", room, "event", id])).await?)
    }

    async fn members(&self, room: &Arc<str>) -> Result<Arc<RoomMembers>, ConnectionError> {
        if let Some(known) = self.rooms.lock().members(room) {
            return Ok(known);
        }
        let answer = self.api.find(&ApiRequest::get(&["rooms", room, "joined_members"])).await?;
        let members = Arc::new(RoomMembers::read(&answer.unwrap_or_default()));
        self.rooms.lock().put_members(room, &members);
        Ok(members)
    }

    /// Joins the rooms that the bot is invited to. Returns the invitations to try again.
    async fn accept_invitations(&self, invitations: Vec<Invitation>) -> Vec<Invitation> {
        let mut open = Vec::new();
        for Invitation { room, tries } in invitations {
            let request = ApiRequest::new(Method::POST, &["rooms", &room, "join"]);
            match self.api.call(&request, &json!({})).await {
                Ok(_) => tracing::info!("joined the room {room}"),
                Err(BearerError::Refused(refusal)) if refusal.status < 429 => {
                    tracing::info!("the invitation to {room} is not valid any more");
                }
                Err(_) if tries + 1 < MAX_JOINS => open.push(Invitation { room, tries: tries + 1 }),
                Err(_) => tracing::warn!("the room {room} cannot be joined; invite the bot again"),
            }
        }
        open
    }

    /// Tells people that the bot cannot read their encrypted rooms. Returns the rooms where this failed and
    /// must be repeated.
    async fn say_unreadable(&self, rooms: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let mut open = Vec::new();
        for room in rooms {
            // The transaction id is always the same, so the server posts the notice only once.
            match self.send_notice(&room, UNREADABLE, &format!("unreadable {room}")).await {
                Err(error) if error.kind != SendErrorKind::Refused => open.push(room),
                Ok(()) | Err(_) => {}
            }
        }
        open
    }
}

/// The news from one room.
#[derive(Default)]
struct RoomNews {
    events: Vec<InboundEvent>,
    /// Whether somebody wrote an encrypted message to the bot alone.
    is_unreadable: bool,
}
