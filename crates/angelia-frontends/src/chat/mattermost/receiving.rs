//! The connection: first catches up on what was missed since the cursor, then reads a WebSocket. Events are
//! numbered. If a number is missing, a new connection catches up on the gap.

use std::{convert::Infallible, sync::Arc, time::Duration};

use angelia_core::ports::{
    ButtonPress, ConnectionError, ConnectionErrorKind, EventInbox, InboundEvent, InboundKind,
};
use serde::Deserialize as _;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    adapter::{Mattermost, SERVER},
    decode::{FrameKind, MattermostBot, Post, Reaction, ServerFrame},
    lookups::KnownChannel,
    writing::read_choice,
};
use crate::chat::{
    bearer_api::ApiRequest,
    web_socket::{SocketMessage, WebSocket},
};

/// The interval between our pings.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// The longest time without anything from the server, including pongs.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// The time limit for the server's greeting.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);

fn lost(message: String) -> ConnectionError {
    ConnectionError::new(ConnectionErrorKind::Lost, message)
}

/// A connection and its progress.
struct Connection<'a> {
    adapter: &'a Mattermost,
    bot: MattermostBot,
    inbox: &'a dyn EventInbox,
    /// The expected number of the next event.
    next_number: u64,
    newest: Newest,
}

/// The time of the newest post, and all posts of that moment. Its text form is the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Newest {
    at: i64,
    posts: Vec<Arc<str>>,
}

impl Newest {
    fn parse(cursor: &str) -> Option<Self> {
        let mut words = cursor.split(' ');
        let at = words.next()?.parse().ok()?;
        Some(Self { at, posts: words.map(Into::into).collect() })
    }

    fn to_cursor(&self) -> Arc<str> {
        let mut cursor = self.at.to_string();
        for post in &self.posts {
            cursor.push(' ');
            cursor.push_str(post);
        }
        cursor.into()
    }

    /// Returns whether a post is older or already known.
    fn covers(&self, post: &Post) -> bool {
        post.create_at < self.at || (post.create_at == self.at && self.posts.contains(&post.id))
    }

    fn add(&mut self, post: &Post) {
        if post.create_at > self.at {
            *self = Self { at: post.create_at, posts: Vec::new() };
        }
        if post.create_at == self.at && !self.posts.contains(&post.id) {
            self.posts.push(Arc::clone(&post.id));
        }
    }
}

impl Mattermost {
    pub(super) async fn receive_events(
        &self,
        cursor: Option<Arc<str>>,
        inbox: &dyn EventInbox,
    ) -> Result<Infallible, ConnectionError> {
        let bot = self.identity().await?;
        let mut socket = self.open_socket().await?;
        let since = cursor.and_then(|cursor| Newest::parse(&cursor));
        let newest = since.clone().unwrap_or_default();
        let mut connection = Connection { adapter: self, bot, inbox, next_number: 1, newest };
        // The socket is already open, so that no event is lost in between.
        connection.catch_up(since).await?;
        inbox.note_alive();
        let mut ticks = interval(PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = socket.next(MAX_SILENCE) => {
                    let message = message?;
                    inbox.note_alive();
                    connection.take(&message).await?;
                }
                _ = ticks.tick() => socket.ping().await?,
            }
        }
    }

    /// Opens a socket and waits until it is ready.
    async fn open_socket(&self) -> Result<WebSocket, ConnectionError> {
        let address = self.api.socket_address(&["websocket"]);
        let mut socket = WebSocket::connect(SERVER, &address).await?;
        let challenge = json!({
            "seq": 1, "action": "authentication_challenge", "data": {"token": self.api.token()},
        });
        socket.send_text(challenge.to_string()).await?;
        loop {
            let SocketMessage::Text(text) = socket.next(HELLO_TIMEOUT).await? else { continue };
            match ServerFrame::parse(&text).map(|frame| frame.kind) {
                Some(FrameKind::Hello) => return Ok(socket),
                Some(FrameKind::Refused(why)) => {
                    let message = format!("{SERVER} does not accept the token ({why})");
                    return Err(ConnectionError::new(ConnectionErrorKind::Refused, message));
                }
                _ => {}
            }
        }
    }
}

impl Connection<'_> {
    /// Stores what was written since the cursor. Without a cursor, ignores everything so far.
    async fn catch_up(&mut self, since: Option<Newest>) -> Result<(), ConnectionError> {
        let channels = self.adapter.channels().await?;
        let Some(since) = since else {
            let newest = channels.iter().map(|channel| channel.last_post_at).max();
            // A post in this very millisecond is new.
            self.newest.at = newest.unwrap_or_default() + 1;
            return self.store(None).await;
        };
        let mut missed = Vec::new();
        for channel in channels.iter().filter(|channel| channel.last_post_at >= since.at) {
            missed.extend(self.missed_in(channel, since.at).await?);
        }
        missed.sort_by_key(|(post, _)| post.create_at);
        for (post, is_direct) in missed {
            let event = match (post.delete_at, since.covers(&post)) {
                (0, false) => self.read_post(&post, is_direct, &[]).await?,
                (0, true) if post.edit_at > since.at => self.read_edit(&post, is_direct).await?,
                _ => None,
            };
            self.newest.add(&post);
            self.store(event).await?;
        }
        Ok(())
    }

    async fn missed_in(
        &self,
        channel: &KnownChannel,
        since: i64,
    ) -> Result<Vec<(Post, bool)>, ConnectionError> {
        let request = ApiRequest::get(&["channels", &channel.id, "posts"]);
        // This repeats posts of the same moment, which their keys identify.
        let request = request.with("since", (since - 1).to_string());
        let found = self.adapter.api.find(&request).await?.unwrap_or_default();
        let posts = found["posts"].as_object().into_iter().flatten();
        let posts = posts.filter_map(|(_, post)| Post::deserialize(post).ok());
        Ok(posts.map(|post| (post, channel.is_direct)).collect())
    }

    async fn take(&mut self, message: &SocketMessage) -> Result<(), ConnectionError> {
        let SocketMessage::Text(text) = message else { return Ok(()) };
        let Some(frame) = ServerFrame::parse(text) else { return Ok(()) };
        if let Some(number) = frame.number {
            if number > self.next_number {
                return Err(lost("events are missing; they are requested again".to_owned()));
            }
            self.next_number = number + 1;
        }
        let event = match frame.kind {
            FrameKind::Posted { post, is_direct, mentions } => {
                let event = self.read_post(&post, is_direct, &mentions).await?;
                self.newest.add(&post);
                event
            }
            FrameKind::Edited(post) => {
                let is_direct = self.adapter.is_direct(&post.channel_id).await?;
                self.read_edit(&post, is_direct).await?
            }
            FrameKind::Deleted(post) => {
                let is_direct = self.adapter.is_direct(&post.channel_id).await?;
                self.read_deletion(&post, is_direct).await?
            }
            FrameKind::Reaction(reaction) => self.read_reaction(reaction).await?,
            FrameKind::Hello | FrameKind::Refused(_) | FrameKind::Other => return Ok(()),
        };
        if event.is_none() { Ok(()) } else { self.store(event).await }
    }

    /// Stores an event together with the new cursor.
    async fn store(&self, event: Option<InboundEvent>) -> Result<(), ConnectionError> {
        let events = event.into_iter().collect();
        let stored = self.inbox.accept(events, Some(self.newest.to_cursor())).await;
        stored.map_err(|error| lost(format!("the event could not be stored: {error}")))
    }

    async fn read_post(
        &self,
        post: &Post,
        is_direct: bool,
        mentions: &[String],
    ) -> Result<Option<InboundEvent>, ConnectionError> {
        if *post.user_id == *self.bot.id || !post.is_of_person() {
            return Ok(None);
        }
        let is_addressed = post.mentions(&self.bot)
            || mentions.iter().any(|id| **id == *self.bot.id)
            || (!is_direct && self.adapter.answers_bot(post, &self.bot.id).await?);
        let Some(message) = post.to_message(&self.bot, is_direct, is_addressed) else {
            return Ok(None);
        };
        let sender = self.adapter.sender(&post.user_id).await?;
        let (dedupe_key, chat) = (Arc::clone(&post.id), post.chat(is_direct));
        Ok(Some(InboundEvent { dedupe_key, chat, sender, kind: InboundKind::Message(message) }))
    }

    async fn read_edit(
        &self,
        post: &Post,
        is_direct: bool,
    ) -> Result<Option<InboundEvent>, ConnectionError> {
        let key = format!("{} edited {}", post.id, post.edit_at);
        let read = self.read_post(post, is_direct, &[]).await?;
        Ok(read.map(|event| match event.kind {
            InboundKind::Message(message) => {
                InboundEvent { dedupe_key: key.into(), kind: InboundKind::Edited(message), ..event }
            }
            _ => event,
        }))
    }

    async fn read_deletion(
        &self,
        post: &Post,
        is_direct: bool,
    ) -> Result<Option<InboundEvent>, ConnectionError> {
        if *post.user_id == *self.bot.id || !post.is_of_person() {
            return Ok(None);
        }
        Ok(Some(InboundEvent {
            dedupe_key: format!("{} deleted", post.id).into(),
            chat: post.chat(is_direct),
            sender: self.adapter.sender(&post.user_id).await?,
            kind: InboundKind::Deleted(Arc::clone(&post.id)),
        }))
    }

    async fn read_reaction(
        &self,
        reaction: Reaction,
    ) -> Result<Option<InboundEvent>, ConnectionError> {
        if *reaction.user_id == *self.bot.id {
            return Ok(None);
        }
        let Some(card) = self.adapter.find_post(&reaction.post_id).await? else { return Ok(None) };
        let Some(value) = read_choice(&card, &self.bot.id, &reaction.emoji_name) else {
            return Ok(None);
        };
        let is_direct = self.adapter.is_direct(&card.channel_id).await?;
        let chat = match &*card.root_id {
            "" => Arc::clone(&card.channel_id),
            root => format!("{}#{root}", card.channel_id).into(),
        };
        let Reaction { user_id, post_id, emoji_name, create_at } = reaction;
        let press = ButtonPress {
            id: format!("{chat} {post_id} {user_id}").into(),
            value,
            message_id: Some(Arc::clone(&post_id)),
            is_direct,
        };
        Ok(Some(InboundEvent {
            dedupe_key: format!("{post_id} {user_id} {emoji_name} {create_at}").into(),
            chat,
            sender: self.adapter.sender(&user_id).await?,
            kind: InboundKind::Press(press),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_knows_the_posts_of_its_moment() {
        let post = |id: &str, create_at: i64| {
            Post::deserialize(&json!({"id": id, "create_at": create_at})).unwrap()
        };
        let mut newest = Newest::default();
        for one in [post("a", 5), post("b", 7), post("c", 7), post("old", 6)] {
            newest.add(&one);
        }
        assert_eq!(&*newest.to_cursor(), "7 b c");
        let read = Newest::parse("7 b c").unwrap();
        assert_eq!(read, newest);
        assert!(read.covers(&post("b", 7)) && read.covers(&post("x", 6)));
        assert!(!read.covers(&post("d", 7)) && !read.covers(&post("e", 8)));
        assert_eq!(Newest::parse("x"), None);
    }
}
