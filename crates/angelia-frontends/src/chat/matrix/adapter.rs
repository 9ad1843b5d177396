//! The Matrix adapter: identifies the bot and states the platform's capabilities.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, Clock, ConnectionError,
    ConnectionErrorKind, EventInbox, InboundFile, LengthLimit, LengthUnit, OutgoingFile,
    OutgoingMessage, RichText, SendFuture, SentMessage, StreamMeans,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    decode::MatrixBot,
    rooms::RoomBook,
    writing::{PREVIEW_RATE, text_content},
};
use crate::chat::{
    bearer_api::{ApiRequest, BearerApi, ServerWords},
    platform_http::AddressProblem,
    send_budget::{Pace, SendBudget},
};

const PLATFORM: &str = "matrix";

pub(super) const SERVER: &str = "the homeserver";

const WORDS: ServerWords = ServerWords {
    server: SERVER,
    root: &["_matrix", "client", "v3"],
    bad_token: "log the bot in again",
    forbidden: "invite the bot into the room, and let it write there",
    other_server: "`base_url` is not a Matrix homeserver; the settings of a Matrix client show its address",
};

/// The longest message. An event has at most 64 KiB, and an edit contains the text three times.
const MAX_LENGTH: LengthLimit = LengthLimit { max: 20_000, unit: LengthUnit::Bytes };

/// The pause between two previews.
const PREVIEW_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("the access token is empty, or has characters that no token has")]
    Token,
    #[error("`{0}` is not a Matrix user id; it looks like @bot:example.org")]
    User(String),
}

/// The bot's credentials.
#[derive(Clone, Copy)]
pub struct MatrixSecrets<'a> {
    /// The address of the homeserver.
    pub base_url: &'a str,
    pub token: &'a str,
    /// The user id that the token must belong to.
    pub user_id: Option<&'a str>,
}

/// A Matrix bot.
pub struct Matrix {
    pub(super) api: BearerApi,
    pub(super) wanted_user: Option<Arc<str>>,
    identity: Mutex<Option<MatrixBot>>,
    pub(super) rooms: Mutex<RoomBook>,
    /// Previews leave room for messages.
    pub(super) preview_budget: SendBudget,
    /// Until this time, the server does not want us to send events.
    pub(super) paused_until: Mutex<Option<Instant>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Matrix {
    pub fn new(secrets: MatrixSecrets<'_>, clock: Arc<dyn Clock>) -> Result<Self, MatrixError> {
        let MatrixSecrets { base_url, token, user_id } = secrets;
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
            return Err(MatrixError::Token);
        }
        let is_user = |id: &&str| id.starts_with('@') && id.contains(':');
        if let Some(wrong) = user_id.filter(|id| !is_user(id)) {
            return Err(MatrixError::User(wrong.to_owned()));
        }
        Ok(Self {
            api: BearerApi::new(base_url, token, &WORDS)?,
            wanted_user: user_id.map(Into::into),
            identity: Mutex::default(),
            rooms: Mutex::default(),
            preview_budget: SendBudget::new(PREVIEW_RATE),
            paused_until: Mutex::default(),
            clock,
        })
    }

    /// Returns the bot's identity.
    pub(super) async fn identity(&self) -> Result<MatrixBot, ConnectionError> {
        if let Some(known) = self.identity.lock().clone() {
            return Ok(known);
        }
        let me = self.api.call(&ApiRequest::get(&["account", "whoami"]), &Value::Null).await?;
        let Some(id) = me["user_id"].as_str() else {
            let message = format!("{SERVER} does not say who the bot is");
            return Err(ConnectionError::new(ConnectionErrorKind::Lost, message));
        };
        let profile = self.api.find(&ApiRequest::get(&["profile", id])).await?.unwrap_or_default();
        let name = profile["displayname"].as_str().unwrap_or_default();
        let bot = MatrixBot { id: id.into(), name: name.into() };
        Ok(self.identity.lock().insert(bot).clone())
    }
}

impl Channel for Matrix {
    fn platform(&self) -> &'static str {
        PLATFORM
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities {
            receive: true,
            edit: true,
            typing: true,
            buttons: true,
            files: true,
            home: true,
            rich_text: true,
            idempotent: true,
            max_length: Some(MAX_LENGTH),
        }
    }

    fn written_length(&self, text: &RichText) -> Option<usize> {
        Some(Value::Object(text_content("m.text", text)).to_string().len())
    }

    fn stream_means(&self, _chat: &str) -> StreamMeans {
        StreamMeans::Edit { interval: PREVIEW_INTERVAL }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.send_message(chat, message, Pace::Wait))
    }

    fn edit<'a>(
        &'a self,
        chat: &'a str,
        sent: &'a SentMessage,
        new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.edit_message(chat, sent, new, Pace::Wait))
    }

    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.send_message(chat, first, Pace::Preview))
    }

    fn update_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.edit_message(chat, begun, so_far, Pace::Preview))
    }

    fn typing<'a>(&'a self, chat: &'a str) -> SendFuture<'a, ()> {
        Box::pin(self.show_typing(chat))
    }

    fn send_file<'a>(
        &'a self,
        chat: &'a str,
        file: &'a OutgoingFile,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.upload(chat, file))
    }

    fn fetch_file<'a>(&'a self, file: &'a InboundFile, limit: u64) -> SendFuture<'a, Vec<u8>> {
        Box::pin(self.fetch(file, limit))
    }

    fn answer_press<'a>(&'a self, press: &'a ButtonPress, text: &'a str) -> SendFuture<'a, ()> {
        Box::pin(self.tell_presser(press, text))
    }

    fn receive<'a>(
        &'a self,
        cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async move {
            let Err(error) = self.poll(cursor, inbox).await;
            error
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(self.find_problems())
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matrix").field("api", &self.api).finish_non_exhaustive()
    }
}

impl fmt::Debug for MatrixSecrets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatrixSecrets").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}
