//! The Slack adapter: states the platform's capabilities and checks the app's set-up.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, ConnectionError,
    ConnectionErrorKind, EventInbox, InboundEvent, InboundFile, InboundKind, LengthLimit,
    LengthUnit, OutgoingFile, OutgoingMessage, SendFuture, Sender, SentMessage, StreamMeans,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    decode::{SlackBot, split_sender},
    streaming::OpenStream,
    web_api::WebApi,
    writing::SlackBudgets,
};
use crate::chat::{platform_http::AddressProblem, send_budget::Pace};

const PLATFORM: &str = "slack";

/// The scopes that the bot uses, and their purpose.
const SCOPES: [(&str, &str); 7] = [
    ("chat:write", "write messages"),
    ("im:history", "read direct messages"),
    ("app_mentions:read", "see mentions in channels"),
    ("channels:history", "see edits and threads in public channels"),
    ("groups:history", "see edits and threads in private channels"),
    ("files:read", "get files"),
    ("files:write", "send files"),
];

/// With this scope, we can look up people's names.
const NAMES_SCOPE: &str = "users:read";

/// The time limit for looking up a name: an event's acknowledgement must not be late because of it.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// The limit on cached chats and people.
const MAX_KNOWN: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum SlackError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("`bot_token` is not the token of a bot; it looks like xoxb-…")]
    BotToken,
    #[error("`app_token` is not the token of an app; it looks like xapp-…")]
    AppToken,
}

/// A Slack app.
pub struct Slack {
    pub(super) api: WebApi,
    /// The bot, and whether it may read people's names.
    bot: Mutex<Option<(SlackBot, bool)>>,
    pub(super) budgets: SlackBudgets,
    /// The person who gets the answer in each chat, because a stream must name them.
    pub(super) recipients: Mutex<HashMap<Arc<str>, Arc<str>>>,
    pub(super) streams: Mutex<HashMap<String, OpenStream>>,
    pub(super) has_no_streams: AtomicBool,
    names: Mutex<HashMap<Arc<str>, Arc<str>>>,
}

impl Slack {
    /// Creates the adapter. `base_url` names another server with the same protocol.
    pub fn new(
        bot_token: &str,
        app_token: &str,
        base_url: Option<&str>,
    ) -> Result<Self, SlackError> {
        let is_token = |token: &str, start: &str| {
            token.starts_with(start) && token.chars().all(|c| c.is_ascii_graphic())
        };
        if !is_token(bot_token, "xoxb-") {
            return Err(SlackError::BotToken);
        }
        if !is_token(app_token, "xapp-") {
            return Err(SlackError::AppToken);
        }
        Ok(Self {
            api: WebApi::new(base_url, bot_token, app_token)?,
            bot: Mutex::default(),
            budgets: SlackBudgets::new(),
            recipients: Mutex::default(),
            streams: Mutex::default(),
            has_no_streams: AtomicBool::new(false),
            names: Mutex::default(),
        })
    }

    /// Returns the bot's identity, requesting it if necessary.
    pub async fn identity(&self) -> Result<SlackBot, ConnectionError> {
        Ok(self.ask_identity().await?.0)
    }

    async fn ask_identity(&self) -> Result<(SlackBot, Option<String>), ConnectionError> {
        let tested = self.api.test_token().await;
        let (bot, scopes) = tested.map_err(|error| error.of_token("bot_token"))?;
        let bot: SlackBot = serde_json::from_value(bot).map_err(|error| {
            let message = format!("Slack does not say who the bot is: {error}");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })?;
        let has_names = scopes.as_deref().is_some_and(|scopes| has_scope(scopes, NAMES_SCOPE));
        *self.bot.lock() = Some((bot.clone(), has_names));
        Ok((bot, scopes))
    }

    /// Returns the bot's identity if it was already requested.
    pub(super) fn known_bot(&self) -> Option<SlackBot> {
        self.bot.lock().as_ref().map(|(bot, _)| bot.clone())
    }

    /// Remembers who will get the answer in a chat.
    pub(super) fn remember_recipient(&self, event: &InboundEvent) {
        if matches!(event.kind, InboundKind::Message(_)) {
            remember(&self.recipients, &event.chat, &event.sender.id);
        }
    }

    /// Adds a person's name, if the bot may read it.
    pub(super) async fn add_name(&self, sender: &mut Sender) {
        let Some((bot, true)) = self.bot.lock().clone() else { return };
        if !sender.name.is_empty() {
            return;
        }
        if let Some(name) = self.names.lock().get(&sender.id) {
            sender.name = Arc::clone(name);
            return;
        }
        let (_, user) = split_sender(&sender.id, &bot);
        let fields = [("user", user)];
        let asked = timeout(NAME_TIMEOUT, self.api.call_with_form("users.info", &fields)).await;
        if let Ok(Ok(found)) = asked {
            sender.name = name_of(&found["user"]);
            remember(&self.names, &sender.id, &sender.name);
        }
    }

    async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        let (bot, scopes) = self.ask_identity().await?;
        let mut findings = vec![ChannelFinding {
            is_problem: false,
            text: format!("the bot is @{} in the workspace {}", bot.user, bot.team),
        }];
        let lacks = |scope: &str| scopes.as_deref().is_some_and(|known| !has_scope(known, scope));
        let missing = SCOPES.iter().filter(|(scope, _)| lacks(scope));
        findings.extend(missing.map(|(scope, use_of_it)| ChannelFinding {
            is_problem: true,
            text: format!(
                "the scope {scope} is missing (to {use_of_it}); add it under OAuth & Permissions, and \
                 install the app again"
            ),
        }));
        // Do not connect: a second socket would take events from the first.
        self.api.open_connection().await?;
        findings.push(ChannelFinding {
            is_problem: false,
            text: "Socket Mode works; Slack does not tell which events the app is subscribed to: \
                   message.im, app_mention, message.channels and message.groups are needed"
                .to_owned(),
        });
        Ok(findings)
    }
}

fn has_scope(scopes: &str, wanted: &str) -> bool {
    scopes.split(',').any(|scope| scope.trim() == wanted)
}

fn remember(known: &Mutex<HashMap<Arc<str>, Arc<str>>>, key: &Arc<str>, value: &Arc<str>) {
    let mut known = known.lock();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(Arc::clone(key), Arc::clone(value));
}

fn name_of(user: &Value) -> Arc<str> {
    let names = [&user["profile"]["display_name"], &user["real_name"], &user["name"]];
    let mut names = names.into_iter().filter_map(Value::as_str);
    names.find(|name| !name.is_empty()).unwrap_or_default().into()
}

impl Channel for Slack {
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
            idempotent: false,
            // Slack accepts more but advises against it, and edits do not accept a longer text.
            max_length: Some(LengthLimit { max: 3900, unit: LengthUnit::CodePoints }),
        }
    }

    fn stream_means(&self, chat: &str) -> StreamMeans {
        if self.has_streams(chat) {
            // When a stream gets old, its message continues with edits.
            let lifetime = Duration::MAX;
            return StreamMeans::Stream { interval: Duration::from_secs(1), lifetime };
        }
        StreamMeans::Edit { interval: Duration::from_secs(2) }
    }

    fn send<'a>(
        &'a self,
        chat: &'a str,
        message: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.post(chat, message))
    }

    fn edit<'a>(
        &'a self,
        chat: &'a str,
        sent: &'a SentMessage,
        new: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.update(chat, sent, new, Pace::Wait))
    }

    fn begin_stream<'a>(
        &'a self,
        chat: &'a str,
        first: &'a OutgoingMessage,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.begin(chat, first))
    }

    fn update_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        so_far: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.go_on(chat, begun, so_far))
    }

    fn end_stream<'a>(
        &'a self,
        chat: &'a str,
        begun: &'a SentMessage,
        last: &'a OutgoingMessage,
    ) -> SendFuture<'a, ()> {
        Box::pin(self.end(chat, begun, last))
    }

    fn send_file<'a>(
        &'a self,
        chat: &'a str,
        file: &'a OutgoingFile,
    ) -> SendFuture<'a, SentMessage> {
        Box::pin(self.send_upload(chat, file))
    }

    fn fetch_file<'a>(&'a self, file: &'a InboundFile, limit: u64) -> SendFuture<'a, Vec<u8>> {
        Box::pin(self.fetch(file, limit))
    }

    fn answer_press<'a>(&'a self, press: &'a ButtonPress, text: &'a str) -> SendFuture<'a, ()> {
        Box::pin(self.tell_presser(press, text))
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
        Box::pin(self.find_problems())
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack").field("api", &self.api).finish_non_exhaustive()
    }
}
