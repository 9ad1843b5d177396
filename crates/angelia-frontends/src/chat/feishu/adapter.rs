//! The Feishu adapter: states the platform's capabilities and connects the parts of this folder.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, Clock, ConnectionError,
    ConnectionErrorKind, EventInbox, InboundFile, LengthLimit, LengthUnit, OutgoingFile,
    OutgoingMessage, SendFuture, SentMessage, StreamMeans,
};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, oneshot};

use super::{
    decode::BotIdentity,
    lookups::Lookups,
    open_api::{ApiRequest, OpenApi, SERVER},
    streaming::CardState,
    writing::OVERALL_RATE,
};
use crate::chat::{platform_http::AddressProblem, send_budget::SendBudget};

const PLATFORM: &str = "feishu";

/// The longest text. A card may have 30 KB as encoded in the request, where a quotation mark takes four
/// bytes. Any text of this length fits, at least without formatting.
const MAX_TEXT_BYTES: usize = 6500;

/// The platform lets a card stream for ten minutes; we end it earlier.
const STREAM_LIFETIME: Duration = Duration::from_mins(9);
const STREAM_INTERVAL: Duration = Duration::from_millis(500);
const EDIT_INTERVAL: Duration = Duration::from_millis(1200);

#[derive(Debug, thiserror::Error)]
pub enum FeishuError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("this is not the ID of a Feishu app; it looks like cli_a1b2c3…")]
    AppId,
}

/// A Feishu or Lark app with a bot.
pub struct Feishu {
    pub(super) api: OpenApi,
    bot: OnceCell<BotIdentity>,
    pub(super) lookups: Lookups,
    pub(super) budget: SendBudget,
    /// Card updates have their own rates.
    pub(super) card_budget: SendBudget,
    pub(super) has_no_streams: AtomicBool,
    /// The growing cards, by id.
    pub(super) cards: Mutex<HashMap<String, CardState>>,
    /// Presses whose acknowledgement waits for the answer, by id.
    pub(super) open_presses: Mutex<HashMap<Arc<str>, oneshot::Sender<String>>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Feishu {
    /// Creates the adapter. `base_url` names Lark or another server with the same API.
    pub fn new(
        app_id: &str,
        app_secret: &str,
        base_url: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FeishuError> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !app_id.starts_with("cli_") || !app_id.chars().all(is_word) {
            return Err(FeishuError::AppId);
        }
        Ok(Self {
            api: OpenApi::new(base_url, app_id, app_secret)?,
            bot: OnceCell::new(),
            lookups: Lookups::default(),
            budget: SendBudget::new(OVERALL_RATE),
            card_budget: SendBudget::new(OVERALL_RATE),
            has_no_streams: AtomicBool::new(false),
            cards: Mutex::default(),
            open_presses: Mutex::default(),
            clock,
        })
    }

    /// Returns the bot's identity, which is requested only once.
    pub(super) async fn identity(&self) -> Result<&BotIdentity, ConnectionError> {
        self.bot
            .get_or_try_init(|| async {
                let answer = self.api.call(&ApiRequest::get("bot/v3/info")).await?;
                let bot = &answer["bot"];
                let text = |name: &str| bot[name].as_str().unwrap_or_default().into();
                let bot = BotIdentity { open_id: text("open_id"), name: text("app_name") };
                if bot.open_id.is_empty() {
                    let message = format!(
                        "{SERVER} does not say who the bot is; add the ability \"Bot\" to the app"
                    );
                    return Err(ConnectionError::new(ConnectionErrorKind::Lost, message));
                }
                Ok(bot)
            })
            .await
    }
}

impl Channel for Feishu {
    fn platform(&self) -> &'static str {
        PLATFORM
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities {
            receive: true,
            edit: true,
            typing: false,
            buttons: true,
            files: true,
            home: true,
            rich_text: true,
            idempotent: true,
            max_length: Some(LengthLimit { max: MAX_TEXT_BYTES, unit: LengthUnit::Bytes }),
        }
    }

    fn stream_means(&self, _chat: &str) -> StreamMeans {
        if self.has_no_streams.load(Ordering::Relaxed) {
            return StreamMeans::Edit { interval: EDIT_INTERVAL };
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
        chat: &'a str,
        sent: &'a SentMessage,
        new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.end_card(chat, sent, new))
    }

    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.begin_card(chat, first))
    }

    fn update_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.grow_card(chat, begun, so_far))
    }

    fn end_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        last: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.end_card(chat, begun, last))
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
        Box::pin(self.answer(press, text))
    }

    fn receive<'a>(
        &'a self,
        _cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async move {
            let Err(error) = self.run_connection(inbox).await;
            error
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(self.find_problems())
    }
}

impl fmt::Debug for Feishu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feishu").field("api", &self.api).finish_non_exhaustive()
    }
}
