//! The Mattermost adapter: identifies the bot, states the platform's capabilities, and checks the
//! set-up.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use angelia_core::ports::{
    BoxFuture, ButtonPress, Channel, ChannelCapabilities, ChannelFinding, Clock, ConnectionError,
    ConnectionErrorKind, EventInbox, InboundFile, LengthLimit, LengthUnit, OutgoingFile,
    OutgoingMessage, RichText, SendFuture, SentMessage, StreamMeans,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    decode::MattermostBot,
    lookups::KnownThings,
    writing::{OVERALL_RATE, to_markdown},
};
use crate::chat::{
    bearer_api::{ApiRequest, BearerApi, ServerWords},
    platform_http::AddressProblem,
    send_budget::{Pace, SendBudget},
};

const PLATFORM: &str = "mattermost";

pub(super) const SERVER: &str = "Mattermost";

const WORDS: ServerWords = ServerWords {
    server: SERVER,
    root: &["api", "v4"],
    bad_token: "make a new one in Integrations, Bot Accounts",
    forbidden: "add the bot to the channel, and let it write there",
    other_server: "`base_url` is not a Mattermost server",
};

/// The longest message.
const MAX_LENGTH: LengthLimit = LengthLimit { max: 16_000, unit: LengthUnit::CodePoints };

/// The pause between two previews.
const PREVIEW_INTERVAL: Duration = Duration::from_millis(1500);

#[derive(Debug, thiserror::Error)]
pub enum MattermostError {
    #[error(transparent)]
    Address(#[from] AddressProblem),
    #[error("this is not a Mattermost token; it has 26 letters and digits")]
    Token,
}

/// A Mattermost bot.
pub struct Mattermost {
    pub(super) api: BearerApi,
    identity: Mutex<Option<MattermostBot>>,
    pub(super) known: Mutex<KnownThings>,
    pub(super) budget: SendBudget,
    /// Previews additionally have their own budget, so that messages find room.
    pub(super) preview_budget: SendBudget,
    /// The latest answers to presses.
    pub(super) press_answers: Mutex<VecDeque<String>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Mattermost {
    pub fn new(
        base_url: &str,
        token: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, MattermostError> {
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(MattermostError::Token);
        }
        Ok(Self {
            api: BearerApi::new(base_url, token, &WORDS)?,
            identity: Mutex::default(),
            known: Mutex::default(),
            budget: SendBudget::new(OVERALL_RATE),
            preview_budget: SendBudget::new(OVERALL_RATE),
            press_answers: Mutex::default(),
            clock,
        })
    }

    /// Returns the bot's identity.
    pub(super) async fn identity(&self) -> Result<MattermostBot, ConnectionError> {
        if let Some(known) = self.identity.lock().clone() {
            return Ok(known);
        }
        let me = self.api.call(&ApiRequest::get(&["users", "me"]), &Value::Null).await?;
        let bot: MattermostBot = serde_json::from_value(me).map_err(|error| {
            let message = format!("{SERVER} does not say who the bot is: {error}");
            ConnectionError::new(ConnectionErrorKind::Lost, message)
        })?;
        Ok(self.identity.lock().insert(bot).clone())
    }

    async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        let bot = self.identity().await?;
        let fine = |text: String| ChannelFinding { is_problem: false, text };
        let problem = |text: String| ChannelFinding { is_problem: true, text };
        let mut findings = vec![fine(format!("the bot is @{} ({})", bot.username, bot.id))];
        if !bot.is_bot {
            findings.push(fine(
                "the token belongs to a person; a bot account would show whose answers they are"
                    .to_owned(),
            ));
        }
        let teams =
            self.api.call(&ApiRequest::get(&["users", "me", "teams"]), &Value::Null).await?;
        match teams.as_array().map(Vec::len) {
            Some(0) => findings.push(problem(
                "the bot is in no team, so nobody finds it; invite it: Invite People, then its name"
                    .to_owned(),
            )),
            Some(count) => findings.push(fine(format!("it is in {count} teams"))),
            None => {}
        }
        let groups = self.channels().await?.iter().filter(|channel| !channel.is_direct).count();
        findings.push(fine(format!("it is in {groups} channels besides direct messages")));
        Ok(findings)
    }
}

impl Channel for Mattermost {
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
            // The server recognises a repetition only for half a minute.
            idempotent: false,
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
        Box::pin(self.tell_presser(press, text))
    }

    fn receive<'a>(
        &'a self,
        cursor: Option<Arc<str>>,
        inbox: &'a dyn EventInbox,
    ) -> BoxFuture<'a, ConnectionError> {
        Box::pin(async move {
            let Err(error) = self.receive_events(cursor, inbox).await;
            error
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<ChannelFinding>, ConnectionError>> {
        Box::pin(self.find_problems())
    }
}

impl fmt::Debug for Mattermost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mattermost").field("api", &self.api).finish_non_exhaustive()
    }
}
