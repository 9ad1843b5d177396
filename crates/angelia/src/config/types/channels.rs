//! Chat platforms: how to reach them, and who may talk there.

use std::{collections::BTreeMap, sync::Arc};

use angelia_frontends::chat::BusyPolicy;
use serde::Serialize;

use super::{
    AgentCommand, FixedPath, ProfileName, SecretSetting, VariableName, choices::BusyChoice,
    providers::BaseUrl,
};
use crate::config::{
    schema::inline_schema,
    setting::{TextSetting, settings},
};

settings! {
    /// A chat platform.
    ChannelFields {
        /// Telegram, Discord, Mattermost and Matrix: where the bot's token is, as `{env: NAME}`, `{file: PATH}` or
        /// `{command: [PROGRAM, …]}`, like the other secrets below. `null`: the variable that other programs use
        /// for it, such as `TELEGRAM_BOT_TOKEN`.
        token: Option<SecretSetting> = None,
        /// Slack: the token of the bot, `xoxb-…`.
        bot_token: Option<SecretSetting> = None,
        /// Slack: the token of the app, `xapp-…`.
        app_token: Option<SecretSetting> = None,
        /// Feishu and Lark: the id of the app, `cli_…`.
        app_id: Option<SecretSetting> = None,
        /// Feishu and Lark: the secret of the app.
        app_secret: Option<SecretSetting> = None,
        /// DingTalk: the client id of the app, which is its robot's code too.
        client_id: Option<SecretSetting> = None,
        /// DingTalk: the client secret of the app.
        client_secret: Option<SecretSetting> = None,
        /// DingTalk: the template for cards with buttons and for answers that are shown while they are being
        /// written.
        card_template_id: Option<SecretSetting> = None,
        /// WeCom: the id of the bot.
        bot_id: Option<SecretSetting> = None,
        /// WeCom: the secret of the bot's long connection.
        secret: Option<SecretSetting> = None,
        /// Matrix: the user id of the bot, `@bot:example.org`.
        user_id: Option<SecretSetting> = None,
        /// Makes this a custom channel: the program that acts as its adapter, with its arguments
        /// (docs/chat.md).
        command: Option<AgentCommand> = None,
        /// The variables of this program, each as `{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, …]}`.
        /// From our own environment it gets only what agents get: PATH, HOME, LANG and the like.
        env: BTreeMap<VariableName, SecretSetting> = BTreeMap::new(),
        /// Another server that speaks the same protocol, without a path; for Matrix and Mattermost, your
        /// server. Credentials are sent only to this host.
        base_url: Option<BaseUrl> = None,
        /// The ids of the people who may talk; `[]`: only those let in by `angelia access approve`.
        allow: Vec<ChatId> = Vec::new(),
        /// The ids of the roles whose members may talk too, if the platform has roles.
        roles: Vec<ChatId> = Vec::new(),
        /// The ids of the group chats in which they may talk.
        groups: Vec<ChatId> = Vec::new(),
        /// The ids of the people who may decide approvals by chat; `[]`: nobody.
        approvers: Vec<ChatId> = Vec::new(),
        /// The profile of its turns.
        profile: Option<ProfileName> = None,
        /// The folder in which its agents work; overrides the profile's.
        cwd: Option<FixedPath> = None,
        /// How a message is handled while a turn runs: it is passed on to the turn, waits for its end, or
        /// stops it first.
        busy: BusyChoice = BusyChoice::Steer,
        /// Other settings for single chats, by `CHAT` or `CHAT#THREAD`.
        chats: BTreeMap<ChatName, ChatFields> = BTreeMap::new(),
    }
}

settings! {
    /// Settings of one chat; `null` keeps those of its platform.
    ChatFields {
        /// The profile of its turns.
        profile: Option<ProfileName> = None,
        /// The folder in which its agents work.
        cwd: Option<FixedPath> = None,
        /// How a message is handled while a turn runs.
        busy: Option<BusyChoice> = None,
    }
}

impl From<BusyChoice> for BusyPolicy {
    fn from(choice: BusyChoice) -> Self {
        match choice {
            BusyChoice::Steer => Self::Steer,
            BusyChoice::Queue => Self::Queue,
            BusyChoice::Interrupt => Self::Interrupt,
        }
    }
}

impl ChannelFields {
    /// Returns the values that the owner must provide, by key. The platform's row in
    /// [`PLATFORMS`](crate::platforms::PLATFORMS) says which of them it has.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = (&'static str, &SecretSetting)> {
        let all = [
            ("token", &self.token),
            ("bot_token", &self.bot_token),
            ("app_token", &self.app_token),
            ("app_id", &self.app_id),
            ("app_secret", &self.app_secret),
            ("client_id", &self.client_id),
            ("client_secret", &self.client_secret),
            ("card_template_id", &self.card_template_id),
            ("bot_id", &self.bot_id),
            ("secret", &self.secret),
            ("user_id", &self.user_id),
        ];
        all.into_iter().filter_map(|(key, source)| Some((key, source.as_ref()?)))
    }

    pub(crate) fn secret(&self, key: &str) -> Option<&SecretSetting> {
        self.secrets().find(|(known, _)| *known == key).map(|(_, source)| source)
    }
}

/// The name of a channel: a chat platform, or one of the owner's programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct ChannelName(pub(crate) Arc<str>);

inline_schema!(ChannelName, {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"});

impl TextSetting for ChannelName {
    const EXPECTS: &'static str = "a platform, such as telegram";

    fn parse(text: &str) -> Option<Self> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let fits = text.chars().all(is_word) && !text.starts_with(['-', '_']) && !text.is_empty();
        fits.then(|| Self(text.into()))
    }
}

/// The platform's id for a person or a chat. Never a name, because people can change names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ChatId(pub(crate) Arc<str>);

inline_schema!(ChatId, {"type": ["string", "integer"]});

impl TextSetting for ChatId {
    const EXPECTS: &'static str = "an id, such as 123456789";

    fn parse(text: &str) -> Option<Self> {
        is_id(text).then(|| Self(text.into()))
    }
}

/// A chat or one of its threads: `CHAT` or `CHAT#THREAD`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct ChatName(pub(crate) Arc<str>);

inline_schema!(ChatName, {"type": "string", "minLength": 1});

impl TextSetting for ChatName {
    const EXPECTS: &'static str = "a chat's id, or CHAT#THREAD";

    fn parse(text: &str) -> Option<Self> {
        is_id(text).then(|| Self(text.into()))
    }
}

fn is_id(text: &str) -> bool {
    // A name with a server, as in Matrix, is an id. Without one, it is a name that people can change.
    let is_name = text.starts_with('@') && !text.contains(':');
    !text.is_empty() && text.len() <= 255 && !is_name && !text.contains(char::is_whitespace)
}
