//! The WeCom adapter: uses one connection for everything, and opens it on demand.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use angelia_core::{
    ports::{
        BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, Clock,
        ConnectionError, ConnectionErrorKind, EventInbox, InboundEvent, InboundFile, LengthLimit,
        LengthUnit, OutgoingFile, OutgoingMessage, RichText, SendError, SendErrorKind, SendFuture,
        SentMessage, StreamMeans,
    },
    task::TaskGroup,
};
use parking_lot::Mutex;
use reqwest::{Client, Url};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::{
    decode::{Callback, decode_frame},
    frame::SERVER,
    replies::Replies,
    session::{BotSession, Signal},
    writing::{OVERALL_RATE, written_length},
};
use crate::chat::{
    platform_http::{AddressProblem, build_client, is_loopback, parse_address},
    send_budget::SendBudget,
};

const PLATFORM: &str = "wecom";

const DEFAULT_ADDRESS: &str = "https://openws.work.weixin.qq.com";

const STREAM_INTERVAL: Duration = Duration::from_secs(1);

/// The chat host ends a stream after this time; half a minute later that would no longer be
/// possible.
const STREAM_LIFETIME: Duration = Duration::from_mins(5);

/// After a refusal, messages do not try to connect for this long, because the server counts
/// attempts.
const REFUSAL_PAUSE: Duration = Duration::from_mins(1);

const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub enum WecomError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("the {0} is empty")]
    Empty(&'static str),
}

/// A WeCom AI bot.
pub struct Wecom {
    /// The address of the WebSocket.
    address: Url,
    /// Whether the server is on this machine.
    pub(super) is_local: bool,
    bot_id: Arc<str>,
    secret: Arc<str>,
    pub(super) http: Client,
    connection: AsyncMutex<Connection>,
    pub(super) replies: Mutex<Replies>,
    /// Events that were read but not stored yet. The server does not send them again.
    unstored: Mutex<Vec<InboundEvent>>,
    pub(super) budget: SendBudget,
    pub(super) clock: Arc<dyn Clock>,
    tasks: TaskGroup,
}

#[derive(Default)]
struct Connection {
    session: Option<Arc<BotSession>>,
    /// Why the server refused the last attempt, or that another program took the connection.
    refusal: Option<(ConnectionError, Instant)>,
}

impl Wecom {
    /// Creates the adapter. `base_url` names another server with the same protocol.
    pub fn new(
        bot_id: &str,
        secret: &str,
        base_url: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, WecomError> {
        if bot_id.is_empty() {
            return Err(WecomError::Empty("bot's id"));
        }
        if secret.is_empty() {
            return Err(WecomError::Empty("secret"));
        }
        let mut address = parse_address(base_url.unwrap_or(DEFAULT_ADDRESS))?;
        let scheme = if address.scheme() == "https" { "wss" } else { "ws" };
        let is_local = is_loopback(&address);
        address
            .set_scheme(scheme)
            .map_err(|()| AddressProblem::NotHttp(address.as_str().to_owned()))?;
        Ok(Self {
            address,
            is_local,
            bot_id: bot_id.into(),
            secret: secret.into(),
            http: build_client(DOWNLOAD_TIMEOUT)?,
            connection: AsyncMutex::default(),
            replies: Mutex::default(),
            unstored: Mutex::default(),
            budget: SendBudget::new(OVERALL_RATE),
            clock,
            tasks: TaskGroup::new(),
        })
    }

    /// Returns the connection, and opens it if there is none.
    async fn session(&self) -> Result<Arc<BotSession>, ConnectionError> {
        let mut connection = self.connection.lock().await;
        if let Some(session) = connection.session.as_ref().filter(|one| one.is_open()) {
            return Ok(Arc::clone(session));
        }
        connection.session = None;
        let (clock, address) = (Arc::clone(&self.clock), self.address.as_str());
        let opened =
            BotSession::open(address, &self.bot_id, &self.secret, clock, &self.tasks).await;
        match opened {
            Ok(session) => {
                *connection = Connection { session: Some(Arc::clone(&session)), refusal: None };
                Ok(session)
            }
            Err(error) => {
                if error.kind == ConnectionErrorKind::Refused {
                    connection.refusal = Some((error.clone(), Instant::now()));
                }
                Err(error)
            }
        }
    }

    /// Like [`Self::session`], for messages. They do not reopen a connection that was just refused or taken
    /// over.
    pub(super) async fn session_to_send(&self) -> Result<Arc<BotSession>, SendError> {
        let not_sent = |error: ConnectionError, retry_after: Option<Duration>| {
            let message = error.message;
            SendError { retry_after, ..SendError::new(SendErrorKind::NotSent, message) }
        };
        let refusal = self.connection.lock().await.refusal.clone();
        if let Some((error, at)) = refusal
            && let Some(left) = REFUSAL_PAUSE.checked_sub(at.elapsed())
        {
            return Err(not_sent(error, Some(left)));
        }
        self.session().await.map_err(|error| not_sent(error, None))
    }

    /// Receives events until the connection is lost.
    async fn receive_events(&self, inbox: &dyn EventInbox) -> Result<Infallible, ConnectionError> {
        let session = self.session().await?;
        inbox.note_alive();
        self.store_waiting(inbox).await?;
        let mut signals = session.signals.lock().await;
        while let Some(signal) = signals.recv().await {
            inbox.note_alive();
            let Signal::Callback(frame) = signal else { continue };
            let now = self.clock.now();
            match decode_frame(&frame, now) {
                Some(Callback::Message { event, message_id, req_id }) => {
                    let chat = &event.chat;
                    if self.replies.lock().keep_message(chat, message_id, req_id, now) {
                        // Log the chat's id: nothing else shows the ids that `groups` needs.
                        tracing::info!("{SERVER}: somebody has written in the chat {chat}");
                    }
                    self.store(inbox, event).await?;
                }
                Some(Callback::Press { event, task_id, req_id }) => {
                    self.replies.lock().keep_press(task_id, req_id, now);
                    self.store(inbox, event).await?;
                }
                Some(Callback::Displaced) => return Err(self.note_displaced().await),
                None => tracing::debug!("{SERVER}: a callback that means nothing to us"),
            }
        }
        Err(session.end())
    }

    async fn store(
        &self,
        inbox: &dyn EventInbox,
        event: InboundEvent,
    ) -> Result<(), ConnectionError> {
        self.unstored.lock().push(event);
        self.store_waiting(inbox).await
    }

    /// Stores the waiting events. They stay in memory until that succeeds, even if the receiver is dropped
    /// meanwhile; a repetition has the same key.
    async fn store_waiting(&self, inbox: &dyn EventInbox) -> Result<(), ConnectionError> {
        let waiting = self.unstored.lock().clone();
        let count = waiting.len();
        if count == 0 {
            return Ok(());
        }
        inbox.accept(waiting, None).await.map_err(|error| {
            let message = format!("the event could not be stored: {error}");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })?;
        self.unstored.lock().drain(..count);
        Ok(())
    }

    /// Records that another program took over the connection. Taking it back immediately would
    /// start a fight.
    async fn note_displaced(&self) -> ConnectionError {
        let message = "another program has connected with this bot, which has only one connection; \
                       stop it, or give it a bot of its own";
        let error = ConnectionError::new(ConnectionErrorKind::Refused, message);
        let refusal = Some((error.clone(), Instant::now()));
        *self.connection.lock().await = Connection { session: None, refusal };
        error
    }
}

impl Channel for Wecom {
    fn platform(&self) -> &'static str {
        PLATFORM
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities {
            receive: true,
            // Only a card can change, and only right after a press.
            edit: false,
            typing: false,
            buttons: true,
            files: true,
            home: true,
            rich_text: true,
            idempotent: false,
            // The platform accepts 20,480.
            max_length: Some(LengthLimit { max: 20_000, unit: LengthUnit::Bytes }),
        }
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn written_length(&self, text: &RichText) -> Option<usize> {
        Some(written_length(text))
    }

    fn stream_means(&self, chat: &str) -> StreamMeans {
        if !self.replies.lock().knows(chat) {
            return StreamMeans::None;
        }
        StreamMeans::Stream { interval: STREAM_INTERVAL, lifetime: STREAM_LIFETIME }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.send_message(chat, message))
    }

    fn edit<'a>(
        &'a self,
        _chat: &'a str,
        sent: &'a SentMessage,
        new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.edit_card(sent, new))
    }

    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.begin_stream_of(chat, first))
    }

    fn update_stream<'a>(
        &'a self,
        _chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.write_stream(begun, so_far, false))
    }

    fn end_stream<'a>(
        &'a self,
        _chat: &'a str,
        begun: &'a SentMessage,
        last: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.write_stream(begun, last, true))
    }

    fn send_file<'a>(
        &'a self,
        chat: &'a str,
        file: &'a OutgoingFile,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.upload_file(chat, file))
    }

    fn fetch_file<'a>(&'a self, file: &'a InboundFile, limit: u64) -> SendFuture<'a, Vec<u8>> {
        Box::pin(self.download_file(file, limit))
    }

    fn answer_press<'a>(&'a self, press: &'a ButtonPress, text: &'a str) -> SendFuture<'a, ()> {
        Box::pin(self.answer_presser(&press.id, text))
    }

    fn receive<'a>(
        &'a self,
        _cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async move {
            let Err(error) = self.receive_events(inbox).await;
            error
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(async move {
            self.session().await?;
            let text = format!("the bot {} is connected", self.bot_id);
            Ok(vec![ChannelFinding { is_problem: false, text }])
        })
    }
}

impl Drop for Wecom {
    fn drop(&mut self) {
        // The socket's task closes it.
        self.tasks.stop_token().cancel();
    }
}

impl fmt::Debug for Wecom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wecom").field("bot_id", &self.bot_id).finish_non_exhaustive()
    }
}
