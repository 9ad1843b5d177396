//! The Discord adapter: identifies the bot, states the platform's capabilities, and checks the set-up.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, ChatCommandHint, Clock,
    ConnectionError, ConnectionErrorKind, EventInbox, InboundFile, InboundKind, LengthLimit,
    LengthUnit, OutgoingFile, OutgoingMessage, RichText, SendError, SendErrorKind, SendFuture,
    SentMessage, StreamMeans,
};
use parking_lot::Mutex;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    markdown::to_markdown,
    rest::{RestApi, RestRoute, SERVER},
    session::ResumeRecord,
    writing::OVERALL_RATE,
};
use crate::chat::{
    platform_http::AddressProblem,
    send_budget::{Pace, SendBudget},
};

const PLATFORM: &str = "discord";

/// The page where bots are set up.
const PORTAL: &str = "https://discord.com/developers/applications";

/// The longest message, including its formatting.
pub(super) const MAX_LENGTH: LengthLimit = LengthLimit { max: 2000, unit: LengthUnit::CodePoints };

/// The application flags that allow reading messages: in any number of servers, or in fewer than a hundred.
const READS_MESSAGES: u64 = 1 << 18 | 1 << 19;

/// The permissions that the bot needs in a server: see channels, write in channels and threads, attach files,
/// and read the message history.
const PERMISSIONS: u64 = 1 << 10 | 1 << 11 | 1 << 15 | 1 << 16 | 1 << 38;

/// Marks a message that only one person sees.
pub(super) const PRIVATE: u32 = 1 << 6;

/// The longest description of a command.
const MAX_DESCRIPTION: usize = 100;

/// The pause between two previews. Discord allows five edits in five seconds.
const PREVIEW_INTERVAL: Duration = Duration::from_millis(1500);

#[derive(Debug, thiserror::Error)]
pub enum DiscordError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("this is not the token of a Discord bot; it has three parts with dots between them")]
    Token,
}

/// A Discord bot.
pub struct Discord {
    pub(super) api: RestApi,
    identity: Mutex<Option<DiscordBot>>,
    pub(super) resumes: Mutex<ResumeRecord>,
    /// The chat names of server channels that were already looked up.
    pub(super) chat_names: Mutex<HashMap<Arc<str>, Arc<str>>>,
    pub(super) budget: SendBudget,
    /// Previews additionally have their own budget, so that messages find room.
    pub(super) preview_budget: SendBudget,
    pub(super) clock: Arc<dyn Clock>,
}

/// The bot itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DiscordBot {
    pub(super) id: Arc<str>,
    #[serde(default)]
    username: String,
}

/// The application that the bot belongs to.
#[derive(Debug, Deserialize)]
struct Application {
    id: String,
    #[serde(default)]
    flags: u64,
    interactions_endpoint_url: Option<String>,
}

impl Discord {
    /// Creates the adapter. `base_url` names another server with the same protocol.
    pub fn new(
        token: &str,
        base_url: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, DiscordError> {
        let is_token_char = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let mut parts = token.split('.');
        let is_part = |part: &str| !part.is_empty() && part.chars().all(is_token_char);
        if parts.clone().count() != 3 || !parts.all(is_part) {
            return Err(DiscordError::Token);
        }
        Ok(Self {
            api: RestApi::new(base_url, token)?,
            identity: Mutex::default(),
            resumes: Mutex::default(),
            chat_names: Mutex::default(),
            budget: SendBudget::new(OVERALL_RATE),
            preview_budget: SendBudget::new(OVERALL_RATE),
            clock,
        })
    }

    /// Returns the bot's identity.
    pub(super) async fn identity(&self) -> Result<DiscordBot, ConnectionError> {
        if let Some(known) = self.identity.lock().clone() {
            return Ok(known);
        }
        let me = self.api.call(&RestRoute::get("users/@me"), &Value::Null).await?;
        let me: DiscordBot = parse(me, "who the bot is")?;
        Ok(self.identity.lock().insert(me).clone())
    }

    async fn application(&self) -> Result<Application, ConnectionError> {
        let route = RestRoute::get("oauth2/applications/@me");
        parse(self.api.call(&route, &Value::Null).await?, "which application the bot belongs to")
    }

    /// Confirms to the person that the bot received the command. The answer to it is a separate
    /// message.
    pub(super) async fn confirm_command(&self, id: &str, kind: &InboundKind) {
        let InboundKind::Message(message) = kind else { return };
        if let Err(error) = self.tell_privately(id, &message.text).await {
            tracing::info!(%error, "a command was not confirmed");
        }
    }

    /// Answers an interaction with a text that only its author sees.
    async fn tell_privately(&self, id: &str, text: &str) -> Result<(), SendError> {
        let content = to_markdown(&RichText::plain(text));
        let content: String = content.chars().take(MAX_LENGTH.max).collect();
        let answer = json!({"type": 4, "data": {
            "content": content, "flags": PRIVATE, "allowed_mentions": {"parse": []},
        }});
        Ok(self.api.answer_interaction(id, &answer).await?)
    }

    async fn put_commands(&self, commands: &[ChatCommandHint]) -> Result<(), SendError> {
        let not_sent = |error: ConnectionError| SendError {
            retry_after: error.retry_after,
            ..SendError::new(SendErrorKind::NotSent, error.message)
        };
        let application = self.application().await.map_err(not_sent)?;
        let words = json!([{
            "type": 3, "name": "text", "description": "the text after the command",
            "required": false,
        }]);
        let commands: Vec<Value> = commands
            .iter()
            .map(|one| {
                let about: String = one.about.chars().take(MAX_DESCRIPTION).collect();
                // Offer the command in servers and in direct messages with the bot.
                json!({
                    "type": 1, "name": one.name, "description": about, "options": words,
                    "contexts": [0, 1],
                })
            })
            .collect();
        let path = format!("applications/{}/commands", application.id);
        let route = RestRoute::new(Method::PUT, path, "PUT commands", "");
        self.api.call(&route, &Value::Array(commands)).await?;
        Ok(())
    }

    async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        let bot = self.identity().await?;
        let application = self.application().await?;
        let fine = |text: String| ChannelFinding { is_problem: false, text };
        let problem = |text: String| ChannelFinding { is_problem: true, text };
        let mut findings = vec![fine(format!("the bot is {} ({})", bot.username, bot.id))];
        if application.flags & READS_MESSAGES == 0 {
            findings.push(problem(format!(
                "the bot may not read messages; enable \"Message Content Intent\" at \
                 {PORTAL}/{}/bot",
                application.id
            )));
        }
        if application.interactions_endpoint_url.is_some_and(|url| !url.is_empty()) {
            findings.push(problem(format!(
                "buttons and commands go to another program; remove the \"Interactions Endpoint URL\" at \
                 {PORTAL}/{}/information",
                application.id
            )));
        }
        let gateway = self.api.call(&RestRoute::get("gateway/bot"), &Value::Null).await?;
        if gateway["session_start_limit"]["remaining"].as_u64() == Some(0) {
            findings.push(problem("the bot has begun too many sessions today".to_owned()));
        }
        let servers = self.api.call(&RestRoute::get("users/@me/guilds"), &Value::Null).await?;
        match servers.as_array().map(Vec::len) {
            Some(0) => findings.push(problem(format!(
                "the bot is in no server, so nobody can write to it; invite it: \
                 https://discord.com/oauth2/authorize?client_id={}\
                 &scope=bot%20applications.commands&permissions={PERMISSIONS}",
                application.id
            ))),
            Some(1) => findings.push(fine("it is in 1 server".to_owned())),
            Some(count) => findings.push(fine(format!("it is in {count} servers"))),
            None => {}
        }
        Ok(findings)
    }
}

/// Parses a response. `what` names the expected information in the error.
fn parse<T: serde::de::DeserializeOwned>(answer: Value, what: &str) -> Result<T, ConnectionError> {
    serde_json::from_value(answer).map_err(|error| {
        let message = format!("{SERVER} does not say {what}: {error}");
        ConnectionError::new(ConnectionErrorKind::Lost, message)
    })
}

impl Channel for Discord {
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
        Some(MAX_LENGTH.unit.measure(&to_markdown(text)))
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
        Box::pin(self.tell_privately(&press.id, text))
    }

    fn receive<'a>(
        &'a self,
        cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(self.receive_events(cursor, inbox))
    }

    fn register_commands<'a>(&'a self, commands: &'a [ChatCommandHint]) -> SendFuture<'a, ()> {
        Box::pin(self.put_commands(commands))
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(self.find_problems())
    }
}

impl fmt::Debug for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discord").field("api", &self.api).finish_non_exhaustive()
    }
}
