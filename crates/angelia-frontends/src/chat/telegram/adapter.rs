//! The Telegram adapter: polls for updates and states the platform's capabilities.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, ChatCommandHint, Clock,
    ConnectionError, ConnectionErrorKind, EventInbox, InboundFile, LengthLimit, LengthUnit,
    OutgoingFile, OutgoingMessage, RichText, SendFuture, SentMessage, StreamMeans,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    bot_api::{ApiError, BotApi},
    decode::{BotIdentity, decode_updates, update_id},
    writing::OVERALL_RATE,
};
use crate::chat::{
    platform_http::AddressProblem,
    send_budget::{Pace, SendBudget},
};

const PLATFORM: &str = "telegram";

/// How long a poll waits for an update.
const POLL_WAIT: Duration = Duration::from_secs(25);

/// The limit on updates in one poll.
const MAX_UPDATES: u32 = 100;

/// How long a draft stays visible.
const DRAFT_LIFETIME: Duration = Duration::from_secs(30);

/// The pause after updates without a number, which would be delivered again immediately.
const GARBAGE_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum TelegramError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("this is not the token of a Telegram bot; it looks like 123456:ABC…")]
    Token,
}

/// A Telegram bot.
pub struct Telegram {
    pub(super) api: BotApi,
    bot: OnceLock<BotIdentity>,
    pub(super) budget: SendBudget,
    /// Previews additionally have their own budget, so that messages find room.
    pub(super) draft_budget: SendBudget,
    pub(super) has_no_drafts: AtomicBool,
    /// Groups that became supergroups, by their old id.
    pub(super) moved_chats: Mutex<HashMap<i64, i64>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Telegram {
    /// Creates the adapter. `base_url` names another server of the Bot API.
    pub fn new(
        token: &str,
        base_url: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TelegramError> {
        let is_token_char = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let fits = token.split_once(':').is_some_and(|(number, secret)| {
            !number.is_empty()
                && number.chars().all(|c| c.is_ascii_digit())
                && !secret.is_empty()
                && secret.chars().all(is_token_char)
        });
        if !fits {
            return Err(TelegramError::Token);
        }
        Ok(Self {
            api: BotApi::new(base_url, token)?,
            bot: OnceLock::new(),
            budget: SendBudget::new(OVERALL_RATE),
            draft_budget: SendBudget::new(OVERALL_RATE),
            has_no_drafts: AtomicBool::new(false),
            moved_chats: Mutex::default(),
            clock,
        })
    }

    /// Requests the bot's identity. This works before anything else, so the owner can see it early.
    pub async fn identity(&self) -> Result<BotIdentity, ConnectionError> {
        let me = self.api.call("getMe", &json!({})).await?;
        let me: BotIdentity = serde_json::from_value(me).map_err(|error| {
            let message = format!("Telegram does not say who the bot is: {error}");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })?;
        Ok(self.bot.get_or_init(|| me).clone())
    }

    async fn poll(
        &self,
        cursor: Option<Arc<str>>,
        inbox: &dyn EventInbox,
    ) -> Result<std::convert::Infallible, ConnectionError> {
        let bot = self.identity().await?;
        // Polling and a webhook exclude each other. Waiting updates are kept.
        self.api.call("deleteWebhook", &json!({"drop_pending_updates": false})).await?;
        let mut offset: Option<i64> = cursor.and_then(|cursor| cursor.parse().ok());
        inbox.note_alive();
        loop {
            let mut request = json!({
                "timeout": POLL_WAIT.as_secs(),
                "limit": MAX_UPDATES,
                "allowed_updates":
                    ["message", "edited_message", "callback_query", "stopped_message_generation"],
            });
            if let Some(offset) = offset {
                request["offset"] = offset.into();
            }
            let updates = self.api.call_and_wait("getUpdates", &request, POLL_WAIT).await?;
            inbox.note_alive();
            let updates = updates.as_array().map(Vec::as_slice).unwrap_or_default();
            let Some(last) = updates.iter().filter_map(update_id).max() else {
                if !updates.is_empty() {
                    tokio::time::sleep(GARBAGE_PAUSE).await;
                }
                continue;
            };
            let events = decode_updates(updates, &bot);
            let next = last + 1;
            let stored = inbox.accept(events, Some(next.to_string().into())).await;
            stored.map_err(|error| {
                let message = format!("the updates could not be stored: {error}");
                ConnectionError::new(ConnectionErrorKind::Lost, message)
            })?;
            // The next request acknowledges these updates.
            offset = Some(next);
        }
    }

    async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        let bot = self.identity().await?;
        let fine = |text: String| ChannelFinding { is_problem: false, text };
        let mut findings = vec![fine(format!("the bot is @{}", bot.username))];
        let hook = self.api.call("getWebhookInfo", &json!({})).await?;
        if hook["url"].as_str().is_some_and(|url| !url.is_empty()) {
            let text = "another program has set a webhook for this bot; angelia removes it when it connects";
            findings.push(ChannelFinding { is_problem: true, text: text.to_owned() });
        }
        if !bot.can_read_all_group_messages {
            findings.push(fine(
                "in groups the bot sees commands, mentions and replies to it (privacy mode)"
                    .to_owned(),
            ));
        }
        Ok(findings)
    }
}

impl Channel for Telegram {
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
            idempotent: false,
            max_length: Some(LengthLimit { max: 4096, unit: LengthUnit::Utf16 }),
        }
    }

    fn stream_means(&self, chat: &str) -> StreamMeans {
        if is_group(chat) {
            // A group allows twenty messages a minute, and not all of them are for the answer.
            return StreamMeans::Edit { interval: Duration::from_secs(4) };
        }
        let interval = Duration::from_millis(1500);
        if self.has_no_drafts.load(Ordering::Relaxed) {
            return StreamMeans::Edit { interval };
        }
        StreamMeans::Draft { interval, lifetime: DRAFT_LIFETIME }
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

    fn show_draft<'a>(
        &'a self,
        chat: &'a str,
        draft: u64,
        text: &'a RichText,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.send_draft(chat, draft, text))
    }

    fn typing<'a>(&'a self, chat: &'a str) -> SendFuture<'a, ()> {
        Box::pin(async {
            let mut fields = self.target(chat)?;
            fields.insert("action".to_owned(), "typing".into());
            self.api.call("sendChatAction", &Value::Object(fields)).await?;
            Ok(())
        })
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
        Box::pin(async move {
            let text: String = text.chars().take(200).collect();
            let answer = json!({"callback_query_id": &*press.id, "text": text});
            match self.api.call("answerCallbackQuery", &answer).await {
                Err(ApiError::Refused(refusal)) if refusal.is_old_query() => Ok(()),
                outcome => Ok(outcome.map(drop)?),
            }
        })
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

    fn register_commands<'a>(&'a self, commands: &'a [ChatCommandHint]) -> SendFuture<'a, ()> {
        Box::pin(async move {
            let commands: Vec<Value> = commands
                .iter()
                .map(|one| json!({"command": one.name, "description": one.about}))
                .collect();
            self.api.call("setMyCommands", &json!({"commands": commands})).await?;
            Ok(())
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(self.find_problems())
    }
}

/// Returns whether a chat is a group. The numeric ids of groups are negative.
pub(super) fn is_group(chat: &str) -> bool {
    chat.starts_with('-') || chat.starts_with('@')
}

impl fmt::Debug for Telegram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telegram").field("api", &self.api).finish_non_exhaustive()
    }
}
