//! The connection to the gateway: carries out what the session decides, and stores events together with the
//! resume point.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{ConnectionError, ConnectionErrorKind, EventInbox, InboundEvent};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    adapter::Discord,
    decode::{Dispatch, decode_dispatch},
    rest::{RestError, RestRoute, SERVER},
    session::{Ending, GatewaySession, Reaction, ResumePoint, SessionStart, ending_of_close},
};
use crate::chat::web_socket::{SocketError, SocketMessage, WebSocket};

/// The subscribed events: servers, their messages, direct messages, and message content.
const INTENTS: u32 = 1 | 1 << 9 | 1 << 12 | 1 << 15;

/// The longest time without any frame. Answers to heartbeats come more often.
const SILENCE: Duration = Duration::from_mins(2);

/// The close codes for a session that we will resume, and for one that we end.
const KEEP_SESSION: u16 = 4000;
const END_SESSION: u16 = 1000;

/// The channel types that are threads.
const THREAD_TYPES: [u64; 3] = [10, 11, 12];

/// What follows after a connection ends.
enum Next {
    /// Connect again and resume at this point.
    Connect(Option<ResumePoint>),
    Fail(ConnectionError),
}

/// An open connection.
struct Connection<'a> {
    discord: &'a Discord,
    inbox: &'a dyn EventInbox,
    bot: Arc<str>,
    socket: WebSocket,
    session: GatewaySession,
    /// The resume point that the inbox has stored.
    stored: Option<ResumePoint>,
}

impl Discord {
    pub(super) async fn receive_events(
        &self,
        cursor: Option<Arc<str>>,
        inbox: &dyn EventInbox,
    ) -> ConnectionError {
        let mut point = cursor.and_then(|cursor| ResumePoint::parse(&cursor));
        loop {
            match self.run_connection(point, inbox).await {
                Ok(Next::Connect(next)) => point = next,
                Ok(Next::Fail(error)) | Err(error) => return error,
            }
        }
    }

    async fn run_connection(
        &self,
        point: Option<ResumePoint>,
        inbox: &dyn EventInbox,
    ) -> Result<Next, ConnectionError> {
        let bot = self.identity().await?.id;
        let point = point.filter(|point| self.api.gateway_url(&point.url).is_some());
        let start = SessionStart::choose(point.clone(), *self.resumes.lock());
        let (socket, is_resume) = match &start {
            SessionStart::Resume(point) => (self.dial_again(point).await?, true),
            SessionStart::Identify => {
                let address = self.find_gateway().await?;
                (self.dial(&address).await?, false)
            }
        };
        let session = GatewaySession::new(start, Instant::now());
        let stored = point.filter(|_| is_resume);
        let mut connection = Connection { discord: self, inbox, bot, socket, session, stored };
        let ending = connection.run().await?;
        let Connection { socket, session, .. } = connection;
        let keeps_session = !matches!(ending, Ending::Identify(_));
        socket.close(if keeps_session { KEEP_SESSION } else { END_SESSION }).await;
        Ok(self.follow_ending(ending, &session).await)
    }

    /// Decides what follows after a connection, and records whether resuming the session failed.
    async fn follow_ending(&self, ending: Ending, session: &GatewaySession) -> Next {
        let lost =
            |message: String| Next::Fail(ConnectionError::new(ConnectionErrorKind::Lost, message));
        let has_failed = session.is_resume() && !session.is_live();
        if has_failed {
            self.resumes.lock().note_failure();
        }
        match ending {
            Ending::Refused(why) => {
                Next::Fail(ConnectionError::new(ConnectionErrorKind::Refused, why))
            }
            Ending::Resume(why) if session.is_live() => {
                tracing::info!("{why}; the session is resumed");
                Next::Connect(session.resume_point())
            }
            Ending::Lost(why) | Ending::Resume(why) => lost(why),
            Ending::Identify(why) => {
                self.resumes.lock().give_up();
                if !session.is_resume() && !session.is_live() {
                    return lost(why);
                }
                tracing::info!("{why}; a new one begins");
                // Discord asks for a random pause of one to five seconds.
                sleep(Duration::from_secs(1) + Duration::from_secs(4).mul_f64(self.chance())).await;
                Next::Connect(None)
            }
        }
    }

    /// Returns the address of the gateway, or an error if no new session may begin now.
    async fn find_gateway(&self) -> Result<String, ConnectionError> {
        let gateway = self.api.call(&RestRoute::get("gateway/bot"), &Value::Null).await?;
        let limit = &gateway["session_start_limit"];
        if limit["remaining"].as_u64() == Some(0) {
            let message = "the bot has begun too many sessions today";
            let error = ConnectionError::new(ConnectionErrorKind::Lost, message);
            let pause = limit["reset_after"].as_u64().map(Duration::from_millis);
            return Err(ConnectionError { retry_after: pause, ..error });
        }
        let address = gateway["url"].as_str().unwrap_or_default();
        self.api.gateway_url(address).ok_or_else(|| {
            let message = "the gateway is not on a server of Discord, so it does not get the token";
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })
    }

    async fn dial(&self, address: &str) -> Result<WebSocket, ConnectionError> {
        Ok(WebSocket::connect(SERVER, address).await?)
    }

    /// Connects to the address where a session can be resumed.
    async fn dial_again(&self, point: &ResumePoint) -> Result<WebSocket, ConnectionError> {
        let address = self.api.gateway_url(&point.url).unwrap_or_default();
        let dialled = self.dial(&address).await;
        // Blame the session only if Discord itself can be reached.
        if dialled.is_err() && self.find_gateway().await.is_ok() {
            self.resumes.lock().note_failure();
        }
        dialled
    }

    /// Returns a random number from 0 up to 1.
    fn chance(&self) -> f64 {
        f64::from(self.clock.fresh_uuid().as_bytes()[15]) / 256.0
    }

    /// Returns a channel's chat name in addresses. The name of a thread begins with its parent
    /// channel.
    async fn name_chat(&self, channel: &Arc<str>) -> Result<Arc<str>, ConnectionError> {
        if let Some(name) = self.chat_names.lock().get(channel) {
            return Ok(Arc::clone(name));
        }
        let route =
            RestRoute::new(Method::GET, format!("channels/{channel}"), "GET channel", channel);
        let found = match self.api.call(&route, &Value::Null).await {
            Ok(found) => found,
            // The channel is gone, or the bot may not see it.
            Err(RestError::Refused(refusal)) if [403, 404].contains(&refusal.status) => {
                return Ok(Arc::clone(channel));
            }
            Err(error) => return Err(error.into()),
        };
        let is_thread = found["type"].as_u64().is_some_and(|kind| THREAD_TYPES.contains(&kind));
        let name: Arc<str> = match found["parent_id"].as_str() {
            Some(parent) if is_thread => format!("{parent}#{channel}").into(),
            _ => Arc::clone(channel),
        };
        self.chat_names.lock().insert(Arc::clone(channel), Arc::clone(&name));
        Ok(name)
    }
}

impl Connection<'_> {
    async fn run(&mut self) -> Result<Ending, ConnectionError> {
        loop {
            let wake_at = self.session.wake_at();
            let reactions = tokio::select! {
                message = self.socket.next(SILENCE) => self.read(message),
                () = sleep_until(wake_at) => self.session.on_time(Instant::now()),
            };
            if self.session.is_live() {
                self.inbox.note_alive();
            }
            for reaction in reactions {
                if let Some(ending) = self.react(reaction).await? {
                    return Ok(ending);
                }
            }
        }
    }

    fn read(&mut self, message: Result<SocketMessage, SocketError>) -> Vec<Reaction> {
        let text = match message {
            Ok(SocketMessage::Text(text)) => text,
            // Only compressed frames are binary, and we did not ask for compression.
            Ok(SocketMessage::Binary(_)) => return Vec::new(),
            Err(SocketError::Closed { code, reason, .. }) => {
                return vec![Reaction::Leave(ending_of_close(code, &reason))];
            }
            Err(error) => return vec![Reaction::Leave(Ending::Lost(error.to_string()))],
        };
        match serde_json::from_str(&text) {
            Ok(frame) => self.session.on_frame(frame, Instant::now(), self.discord.chance()),
            Err(error) => {
                tracing::debug!(%error, "a frame of the gateway cannot be read");
                Vec::new()
            }
        }
    }

    /// Carries out one reaction. Returns how the connection ends, if it does.
    async fn react(&mut self, reaction: Reaction) -> Result<Option<Ending>, ConnectionError> {
        let frame = match reaction {
            Reaction::Leave(ending) => return Ok(Some(ending)),
            Reaction::Live => {
                self.discord.resumes.lock().note_success();
                self.store(Vec::new()).await?;
                return Ok(None);
            }
            Reaction::Dispatch { name, data } => {
                self.take_dispatch(&name, &data).await?;
                return Ok(None);
            }
            Reaction::Heartbeat(seq) => {
                // The sequence number also counts events that are not for us, so store it from time
                // to time.
                self.store(Vec::new()).await?;
                json!({"op": 1, "d": seq})
            }
            Reaction::Identify => json!({"op": 2, "d": {
                "token": self.discord.api.token(),
                "intents": INTENTS,
                "properties": {"os": std::env::consts::OS, "browser": "angelia", "device": "angelia"},
            }}),
            Reaction::Resume(point) => json!({"op": 6, "d": {
                "token": self.discord.api.token(),
                "session_id": point.session_id,
                "seq": point.seq,
            }}),
        };
        let sent = self.socket.send_text(frame.to_string()).await;
        Ok(sent.err().map(|error| Ending::Lost(error.to_string())))
    }

    /// Stores the events of a dispatch, then confirms a command.
    async fn take_dispatch(&mut self, name: &str, data: &Value) -> Result<(), ConnectionError> {
        let decoded = decode_dispatch(name, data, &self.bot).into_iter();
        let decoded: Vec<Dispatch> = decoded.filter(|one| !one.is_foreign()).collect();
        if decoded.is_empty() {
            return Ok(());
        }
        let (mut events, mut commands) = (Vec::new(), Vec::new());
        for Dispatch { mut event, is_in_server, command } in decoded {
            if is_in_server {
                event.chat = self.discord.name_chat(&event.chat).await?;
            }
            commands.extend(command.map(|id| (id, event.kind.clone())));
            events.push(event);
        }
        self.store(events).await?;
        for (id, kind) in commands {
            self.discord.confirm_command(&id, &kind).await;
        }
        Ok(())
    }

    /// Stores events and the resume point after them. Without events, stores the resume point only
    /// if it changed.
    async fn store(&mut self, events: Vec<InboundEvent>) -> Result<(), ConnectionError> {
        let place = self.session.resume_point();
        if events.is_empty() && (place.is_none() || place == self.stored) {
            return Ok(());
        }
        let cursor = place.as_ref().map(ResumePoint::to_cursor);
        self.inbox.accept(events, cursor).await.map_err(|error| {
            let message = format!("the events could not be stored: {error}");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })?;
        self.stored = place;
        Ok(())
    }
}
